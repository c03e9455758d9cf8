/* What PyTorch without CUDA lacks to trace graphs of tensors that say they are on a GPU: a guard of the device. */
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

const c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> guard;
const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, &guard);

} // namespace
