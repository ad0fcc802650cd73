/* Blocks that are lost at the end of the process (option leaks). See leaks.c. */
#ifndef HAK_MODES_LEAKS_H
#define HAK_MODES_LEAKS_H

/* Prints how many blocks nothing points to any more, and where most of them come from; nothing
 * if there are none. At exit. */
void leaks_report(void);

#endif
