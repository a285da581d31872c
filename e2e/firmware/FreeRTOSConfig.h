/* FreeRTOS for the firmware freertos.c, on a Cortex-M3 as QEMU has it. */
#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#define configUSE_PREEMPTION 1
#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 0
#define configCPU_CLOCK_HZ 25000000
#define configTICK_RATE_HZ 1000
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configMAX_PRIORITIES 5
#define configMINIMAL_STACK_SIZE 160
#define configMAX_TASK_NAME_LEN 12
#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configSUPPORT_STATIC_ALLOCATION 0
#define configTOTAL_HEAP_SIZE 28672
/* Its blocks may be guarded: where they lie has a name. */
#define configAPPLICATION_ALLOCATED_HEAP 1
#define configUSE_TRACE_FACILITY 1
#define configRECORD_STACK_HIGH_ADDRESS 1
#define configCHECK_FOR_STACK_OVERFLOW 0
#define configUSE_TIMERS 0
#define configUSE_MUTEXES 0
#define configKERNEL_INTERRUPT_PRIORITY 0xE0
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0xA0
#define INCLUDE_vTaskDelete 1
#define INCLUDE_vTaskDelay 1
#define INCLUDE_vTaskSuspend 1

/* What the vector table of start.c calls them. */
#define vPortSVCHandler Supervise
#define xPortPendSVHandler Switch
#define xPortSysTickHandler Tick

#include <heapledger-freertos.h>
#endif
