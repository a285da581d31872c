/* A plugin for QEMU: counts what firmware loads from a region of memory, and what it stores there. A store to the word `mark` says what was counted and begins anew.
   cc -shared -fPIC accesses.c -o accesses.so; qemu-system-arm -plugin accesses.so,first=ADDRESS,bytes=NUMBER,mark=ADDRESS ...
   What is declared here is the first version of QEMU's interface for plugins. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*translated)(uint64_t id, struct qemu_plugin_tb *block);
typedef void (*accessed)(unsigned cpu, uint32_t access, uint64_t address, void *context);
enum { NO_REGISTERS = 0, LOADS_AND_STORES = 3 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, translated call);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t nth);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *of, accessed call, int registers, int which, void *context);
extern unsigned qemu_plugin_mem_size_shift(uint32_t access);
extern bool qemu_plugin_mem_is_store(uint32_t access);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t first, bytes, mark;
static struct { uint64_t times, bytes; } loads, stores;

static void access_to(unsigned cpu, uint32_t access, uint64_t address, void *context)
{
    uint64_t width = (uint64_t)1 << qemu_plugin_mem_size_shift(access);
    (void)cpu;
    (void)context;
    if (address == mark && qemu_plugin_mem_is_store(access)) {
        fprintf(stderr, "loads %llu\nloaded %llu\nstores %llu\nstored %llu\n", (unsigned long long)loads.times,
                (unsigned long long)loads.bytes, (unsigned long long)stores.times, (unsigned long long)stores.bytes);
        memset(&loads, 0, sizeof loads);
        memset(&stores, 0, sizeof stores);
    }
    if (address - first >= bytes) return;
    if (qemu_plugin_mem_is_store(access)) {
        stores.times++;
        stores.bytes += width;
    } else {
        loads.times++;
        loads.bytes += width;
    }
}

static void translated_block(uint64_t id, struct qemu_plugin_tb *block)
{
    size_t nth, count = qemu_plugin_tb_n_insns(block);
    (void)id;
    for (nth = 0; nth < count; nth++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, nth), access_to, NO_REGISTERS, LOADS_AND_STORES, NULL);
}

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void *about, int count, char **words)
{
    struct { const char *name; uint64_t *to; } told[] = {{"first=", &first}, {"bytes=", &bytes}, {"mark=", &mark}};
    int nth;
    size_t at;
    (void)about;
    for (nth = 0; nth < count; nth++)
        for (at = 0; at < sizeof told / sizeof told[0]; at++)
            if (!strncmp(words[nth], told[at].name, strlen(told[at].name)))
                *told[at].to = strtoull(words[nth] + strlen(told[at].name), NULL, 0);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated_block);
    return 0;
}
