// Loads and stores with a hint for the caches, which says nothing here.
#pragma once
#include "base.h"
#define CUDA_LOAD(name) template <class T> __CUDA_WORD T name(const T *p) { return *p; }
CUDA_LOAD(__ldg)
CUDA_LOAD(__ldca)
CUDA_LOAD(__ldcg)
CUDA_LOAD(__ldcs)
CUDA_LOAD(__ldlu)
CUDA_LOAD(__ldcv)
namespace cuda_words {
template <class T> struct Same { typedef T type; };
}  // namespace cuda_words
#define CUDA_STORE(name) template <class T> __CUDA_WORD void name(T *p, typename cuda_words::Same<T>::type v) { *p = v; }
CUDA_STORE(__stwb)
CUDA_STORE(__stcg)
CUDA_STORE(__stcs)
CUDA_STORE(__stwt)
