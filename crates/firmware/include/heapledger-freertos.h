/* heapledger-freertos.h: the ledger of a firmware with FreeRTOS (V11) knows its tasks by name, and where each one's stack ends.
 *
 * It is included at the end of FreeRTOSConfig.h, which sets configRECORD_STACK_HIGH_ADDRESS to 1; the file with HEAPLEDGER_IMPLEMENTATION
 * includes FreeRTOS.h and task.h first, and defines HEAPLEDGER_FREERTOS. Then a task has a row from its creation on, and "gone" when it is deleted.
 * Led to the library are -Wl,--wrap=pvPortMalloc,--wrap=vPortFree,--wrap=pvPortCalloc.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef HEAPLEDGER_FREERTOS_H
#define HEAPLEDGER_FREERTOS_H

#include "heapledger-firmware.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One past the last byte of the stack of the task that runs; 0 before the first one does. */
extern uintptr_t heapledger_freertos_end;

#ifdef __cplusplus
}
#endif

/* (In tasks.c, which knows what a task is.) */
#if defined(configUSE_TRACE_FACILITY) && configUSE_TRACE_FACILITY == 1
#define traceTASK_CREATE(task) \
    ((void)heapledger_task_begins((uintptr_t)(task), (uint32_t)(task)->uxTCBNumber, (task)->pcTaskName))
#else
#define traceTASK_CREATE(task) ((void)heapledger_task_begins((uintptr_t)(task), 0, (task)->pcTaskName))
#endif
#define traceTASK_DELETE(task) heapledger_task_ends((uintptr_t)(task))
#define traceTASK_SWITCHED_IN() (heapledger_freertos_end = (uintptr_t)(pxCurrentTCB->pxEndOfStack + 1))

#endif
