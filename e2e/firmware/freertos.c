/* Firmware with FreeRTOS and its heap_4: four tasks that allocate, of which one is deleted while blocks of its live; one frees what another
   has allocated, and an interrupt does, too. What is live, and what each task has done, stands in tables beside the ledger: the test
   `firmware_freertos` reads them out of the memory. */
#include "FreeRTOS.h"
#include "queue.h"
#include "task.h"
#include "start.h"

extern char code_start[], code_end[];
static uint32_t clock_of_test(void) { return xTaskGetTickCountFromISR(); }

#define HEAPLEDGER_FREERTOS
#define HEAPLEDGER_IMPLEMENTATION HEAPLEDGER_TASKS
#define HEAPLEDGER_RECORDS 200
#define HEAPLEDGER_SITES 512
#define HEAPLEDGER_HISTORY 64
#define HEAPLEDGER_TASK_ROWS 8
#define HEAPLEDGER_DEPTH 6
#define HEAPLEDGER_PROCESS "program=freertos"
#define HEAPLEDGER_TICKS clock_of_test
#define HEAPLEDGER_TICK_NS 1000000
#define HEAPLEDGER_STACK heapledger_scan
#define HEAPLEDGER_CODE code_start, code_end
uint8_t ucHeap[configTOTAL_HEAP_SIZE] __attribute__((aligned(8)));
#ifdef GUARD
/* Nothing is wrong here. */
struct heapledger_damage;
static void wrong(const struct heapledger_damage *found) { (void)found; fail(77); }
#define HEAPLEDGER_GUARD GUARD
#define HEAPLEDGER_GUARDED HEAPLEDGER_GUARDED_HEAP(ucHeap, sizeof ucHeap)
#define HEAPLEDGER_DAMAGED wrong
#define HEAPLEDGER_ERRORS 4
#endif
#include <heapledger-firmware.h>

/* Who: the tasks in the order of their creation, the one that is created last, and interrupts. */
enum { KEEPER, SENDER, RECEIVER, DOOMED, HEIR, INTERRUPTS, ALL };

/* What each has done, as it knows itself. */
volatile struct { uint32_t allocations, bytes, frees; } truth[ALL];

/* What lives: address, bytes, whose. */
volatile struct { uint32_t address, bytes, who; } living[160];

static QueueHandle_t sent;
static TaskHandle_t doomed;
static volatile uint32_t doomed_is_done, heir_is_done, receiver_is_done;
static void *volatile for_the_interrupt, *volatile of_the_interrupt;

static void note(int who, void *block, uint32_t bytes)
{
    int at;
    if (!block) fail(90);
    taskENTER_CRITICAL();
    truth[who].allocations++;
    truth[who].bytes += bytes;
    for (at = 0; living[at].address; at++) if (at == 159) fail(91);
    living[at].bytes = bytes;
    living[at].who = (uint32_t)who;
    living[at].address = (uint32_t)block;
    taskEXIT_CRITICAL();
}

static void forget(int who, void *block)
{
    int at;
    taskENTER_CRITICAL();
    truth[who].frees++;
    for (at = 0; living[at].address != (uint32_t)block; at++) if (at == 159) fail(92);
    living[at].address = 0;
    taskEXIT_CRITICAL();
}

__attribute__((noinline)) void *gives(int who, uint32_t bytes)
{
    void *block = pvPortMalloc(bytes);
    note(who, block, bytes);
    return block;
}

__attribute__((noinline)) void takes(int who, void *block)
{
    forget(who, block);
    vPortFree(block);
    __asm__ volatile("");
}

static uint32_t random_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

/* An interrupt of the firmware's own: it is asked for where nobody is in the heap, whose functions are not made for it. */
void Asked(void)
{
    vPortFree(for_the_interrupt);
    of_the_interrupt = pvPortMalloc(44);
}

static void interrupt_now(void *block, int whose)
{
    (void)whose;
    forget(INTERRUPTS, block);
    for_the_interrupt = block;
    /* Number 0, by software. */
    *(volatile uint32_t *)0xE000EF00 = 0;
    __asm__ volatile("dsb\n\tisb");
    while (!of_the_interrupt) ;
    note(INTERRUPTS, of_the_interrupt, 44);
    of_the_interrupt = 0;
}

static void task_doomed(void *nothing)
{
    int at;
    (void)nothing;
    for (at = 0; at < 12; at++) {
        void *block = gives(DOOMED, 8 + (uint32_t)at);
        if (at % 3 == 0) takes(DOOMED, block);
    }
    doomed_is_done = 1;
    for (;;) vTaskDelay(1000);
}

static void task_heir(void *nothing)
{
    (void)nothing;
    gives(HEIR, 33);
    heir_is_done = 1;
    /* What it had is freed by the idle task. */
    vTaskDelete(0);
}

static void task_sender(void *nothing)
{
    uint32_t random = 5, at;
    (void)nothing;
    for (at = 0; at < 300; at++) {
        void *block = gives(SENDER, 1 + random_number(&random) % 60);
        xQueueSend(sent, &block, portMAX_DELAY);
    }
    for (;;) vTaskDelay(1000);
}

static void task_receiver(void *nothing)
{
    uint32_t at;
    (void)nothing;
    for (at = 0; at < 300; at++) {
        void *block;
        xQueueReceive(sent, &block, portMAX_DELAY);
        /* Every tenth stays, and every seventh is given to an interrupt. */
        if (at % 10 == 0) continue;
        if (at % 7 == 0) interrupt_now(block, SENDER);
        else takes(RECEIVER, block);
    }
    receiver_is_done = 1;
    for (;;) vTaskDelay(1000);
}

/* A pool of the firmware's own, of which it tells the ledger. */
static uint8_t pool[256];

__attribute__((noinline)) void tells(void)
{
    struct heapledger_resize kept;
    if (heapledger_allocated(HEAPLEDGER_BY_ADDRESS, pool, 100, HEAPLEDGER_KIND_POOL) != 0) fail(80);
    if (heapledger_allocated(HEAPLEDGER_BY_ADDRESS, pool + 200, 20, HEAPLEDGER_KIND_POOL) != 0) fail(81);
    if (heapledger_freed(pool + 200, HEAPLEDGER_KIND_POOL) != 0) fail(82);
    /* It cannot be resized, and then it can, and moves. */
    if (heapledger_resizing(pool, &kept) != 0) fail(83);
    if (heapledger_resized(&kept, HEAPLEDGER_BY_ADDRESS, 0, 1000, HEAPLEDGER_KIND_POOL) != 0) fail(84);
    if (heapledger_resizing(pool, &kept) != 0) fail(85);
    if (heapledger_resized(&kept, HEAPLEDGER_BY_ADDRESS, pool + 128, 50, HEAPLEDGER_KIND_REALLOC) != 0) fail(86);
    truth[KEEPER].allocations += 2;
    truth[KEEPER].frees += 2;
    note(KEEPER, pool + 128, 50);
    /* What cannot be is answered. */
    if (heapledger_freed(0, 0) != HEAPLEDGER_E_INVALID) fail(87);
    if (heapledger_allocated(0, 0, 1, 0) != HEAPLEDGER_E_INVALID) fail(88);
    if (heapledger_resizing(0, &kept) != HEAPLEDGER_E_INVALID || heapledger_resizing(pool, 0) != HEAPLEDGER_E_INVALID) fail(89);
    if (heapledger_copy(0, 0) != sizeof heapledger_ledger / 4 || heapledger_ledger[0] != 0x454C4889) fail(79);
}

static void task_keeper(void *nothing)
{
    uint32_t random = 9, at;
    void *held[8] = {0};
    (void)nothing;
    for (at = 0; at < 400; at++) {
        uint32_t slot = random_number(&random) % 8;
        if (held[slot]) {
            takes(KEEPER, held[slot]);
            held[slot] = 0;
        } else {
            held[slot] = gives(KEEPER, 1 + random_number(&random) % 100);
        }
        if (at % 16 == 0) vTaskDelay(1);
        /* The heap is full. */
        if (at == 200 && pvPortMalloc(30000)) fail(93);
    }
    while (!doomed_is_done || !receiver_is_done) vTaskDelay(1);
    /* Its stack and what the kernel knows of it are freed here, its own blocks are not. */
    vTaskDelete(doomed);
    truth[KEEPER].frees += 2;
    /* Another one is given the same memory. */
    if (xTaskCreate(task_heir, "heir", 200, 0, 2, 0) != pdPASS) fail(94);
    while (!heir_is_done) vTaskDelay(1);
    vTaskDelay(2);
    tells();
    reset();
}

void start(void)
{
    sent = xQueueCreate(4, sizeof(void *));
    xTaskCreate(task_keeper, "keeper", 300, 0, 1, 0);
    xTaskCreate(task_sender, "sender", 240, 0, 2, 0);
    xTaskCreate(task_receiver, "receiver", 240, 0, 2, 0);
    xTaskCreate(task_doomed, "doomed", 200, 0, 2, &doomed);
    *(volatile uint32_t *)0xE000E100 = 1; /* interrupt 0 is let in, below what the kernel masks */
    *(volatile uint8_t *)0xE000E400 = 0xC0;
    vTaskStartScheduler();
    fail(95);
}
