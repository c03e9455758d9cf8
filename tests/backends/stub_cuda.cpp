// A stand-in for NVIDIA's driver library, for asking it about devices on a machine that has none.
// $STUB_COUNT devices of compute capability $STUB_CC; $STUB_ERROR is what starting it answers.
#include <cstdio>
#include <cstdlib>
extern "C" {
static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
int cuDriverGetVersion(int *version) { *version = number("STUB_VERSION", 13000); return 0; }
int cuInit(unsigned) { return number("STUB_ERROR", 0); }
int cuDeviceGetCount(int *count) { *count = number("STUB_COUNT", 1); return 0; }
int cuDeviceGet(int *device, int index) { *device = index + 100; return 0; }
int cuDeviceGetName(char *name, int size, int) { snprintf(name, size, "Stub GPU"); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int) { *size = 5ull << 32; return 0; }
int cuDeviceGetPCIBusId(char *text, int size, int device) {
    snprintf(text, size, "0001:%02X:00.0", device - 100 + 0x1b);
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (device < 100) return 101;
    int cc = number("STUB_CC", 90);
    switch (attribute) {
    case 1: *value = 1024; return 0;
    case 13: *value = 1980000; return 0;  // kHz
    case 16: *value = 132; return 0;
    case 36: *value = 3201000; return 0;  // kHz
    case 37: *value = 6144; return 0;     // bits
    case 38: *value = 62914560; return 0;
    case 39: *value = 2048; return 0;
    case 75: *value = cc / 10; return 0;
    case 76: *value = cc % 10; return 0;
    case 81: *value = 233472; return 0;
    case 82: *value = 65536; return 0;
    case 97: *value = 232448; return 0;
    case 106: *value = 32; return 0;
    default: return 1;  // as an older driver answers to what it does not know
    }
}
int cuGetExportTable(const void **, const void *) { return 801; }  // NVRTC asks for one
int cuGetErrorString(int code, const char **text) { *text = code == 100 ? "no CUDA-capable device is detected" : "trouble"; return 0; }
}
