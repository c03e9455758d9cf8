// Several small integers in a word, computed on side by side: __vadd4, __vmaxs2 and their like.
#pragma once
#include "base.h"
namespace cuda_words {
template <class T, class F> __CUDA_WORD unsigned each(unsigned a, unsigned b, F f) {
    T x[4 / sizeof(T)], y[4 / sizeof(T)];
    __builtin_memcpy(x, &a, 4);
    __builtin_memcpy(y, &b, 4);
    for (unsigned i = 0; i < 4 / sizeof(T); i++) x[i] = (T)f((int)x[i], (int)y[i]);
    __builtin_memcpy(&a, x, 4);
    return a;
}
template <class T> __CUDA_WORD int saturated(int v) {
    const int least = (T)-1 < 0 ? -(1 << (8 * (int)sizeof(T) - 1)) : 0;
    const int most = least + (1 << 8 * (int)sizeof(T)) - 1;
    return v < least ? least : v > most ? most : v;
}
template <class T> __CUDA_WORD unsigned differences(unsigned a, unsigned b) {
    T x[4 / sizeof(T)], y[4 / sizeof(T)];
    __builtin_memcpy(x, &a, 4);
    __builtin_memcpy(y, &b, 4);
    unsigned sum = 0;
    for (unsigned i = 0; i < 4 / sizeof(T); i++) sum += (unsigned)(x[i] < y[i] ? y[i] - x[i] : x[i] - y[i]);
    return sum;
}
}  // namespace cuda_words
#define CUDA_EACH(name, T, expression) \
    __CUDA_WORD unsigned name(unsigned a, unsigned b) { return cuda_words::each<T>(a, b, [](int x, int y) { return expression; }); }
#define CUDA_EACH_ONE(name, T, expression) \
    __CUDA_WORD unsigned name(unsigned a) { return cuda_words::each<T>(a, a, [](int x, int) { return expression; }); }
#define CUDA_COMPARE(op, n, s, T, sign)                        \
    CUDA_EACH(__vcmp##op##s##n, T, x sign y ? -1 : 0)          \
    CUDA_EACH(__vset##op##s##n, T, x sign y ? 1 : 0)
#define CUDA_WORDS(n, S, U)                                    \
    CUDA_EACH(__vadd##n, U, x + y)                             \
    CUDA_EACH(__vsub##n, U, x - y)                             \
    CUDA_EACH(__vaddss##n, S, cuda_words::saturated<S>(x + y)) \
    CUDA_EACH(__vaddus##n, U, cuda_words::saturated<U>(x + y)) \
    CUDA_EACH(__vsubss##n, S, cuda_words::saturated<S>(x - y)) \
    CUDA_EACH(__vsubus##n, U, cuda_words::saturated<U>(x - y)) \
    CUDA_EACH(__vmaxs##n, S, x < y ? y : x)                    \
    CUDA_EACH(__vmaxu##n, U, x < y ? y : x)                    \
    CUDA_EACH(__vmins##n, S, y < x ? y : x)                    \
    CUDA_EACH(__vminu##n, U, y < x ? y : x)                    \
    CUDA_EACH(__vavgu##n, U, (x + y + 1) >> 1)                 \
    CUDA_EACH(__vhaddu##n, U, (x + y) >> 1)                    \
    CUDA_EACH(__vabsdiffs##n, S, x < y ? y - x : x - y)        \
    CUDA_EACH(__vabsdiffu##n, U, x < y ? y - x : x - y)        \
    CUDA_EACH_ONE(__vabs##n, S, x < 0 ? -x : x)                \
    CUDA_EACH_ONE(__vabsss##n, S, cuda_words::saturated<S>(x < 0 ? -x : x)) \
    CUDA_EACH_ONE(__vneg##n, S, -x)                            \
    CUDA_EACH_ONE(__vnegss##n, S, cuda_words::saturated<S>(-x)) \
    CUDA_COMPARE(eq, n, , U, ==)                               \
    CUDA_COMPARE(ne, n, , U, !=)                               \
    CUDA_COMPARE(ge, n, s, S, >=)                              \
    CUDA_COMPARE(gt, n, s, S, >)                               \
    CUDA_COMPARE(le, n, s, S, <=)                              \
    CUDA_COMPARE(lt, n, s, S, <)                               \
    CUDA_COMPARE(ge, n, u, U, >=)                              \
    CUDA_COMPARE(gt, n, u, U, >)                               \
    CUDA_COMPARE(le, n, u, U, <=)                              \
    CUDA_COMPARE(lt, n, u, U, <)                               \
    __CUDA_WORD unsigned __vsads##n(unsigned a, unsigned b) { return cuda_words::differences<S>(a, b); } \
    __CUDA_WORD unsigned __vsadu##n(unsigned a, unsigned b) { return cuda_words::differences<U>(a, b); }
CUDA_WORDS(2, short, unsigned short)
CUDA_WORDS(4, signed char, unsigned char)
