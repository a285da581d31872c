// flags: -s
// expect: live count>=6
// No symbol table: functions have no names, only addresses in a module.
#include "linked.h"
