/* What tables of calls look a call up by: pycall.c, and native.cpp of PyTorch. */
#ifndef TW_KEY_H
#define TW_KEY_H

#include <string.h>

#define TW_KEY_WORDS 160

struct tw_key {
    long size;
    unsigned long long hash;
    long long words[TW_KEY_WORDS];
};

/* 0 where there is no room for another word. */
static inline int tw_key_add(struct tw_key *k, long long word)
{
    if (k->size == TW_KEY_WORDS)
        return 0;
    k->words[k->size++] = word;
    k->hash = (k->hash ^ (unsigned long long)word) * 0x9E3779B97F4A7C15u;
    k->hash ^= k->hash >> 29;
    return 1;
}

static inline void tw_key_start(struct tw_key *k, long long word)
{
    k->size = 0;
    k->hash = 0;
    tw_key_add(k, word);
}

static inline int tw_key_is(const struct tw_key *k, const long long *words, long size)
{
    return k->size == size && memcmp(k->words, words, (size_t)size * sizeof *words) == 0;
}

#endif
