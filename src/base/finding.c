/* A contradiction is noted where it is seen, with locks held, and reported where none is:
 * whoever handles the SIGABRT that follows may still allocate. */
#include "base/finding.h"

#include <stdarg.h>

#include "base/format.h"

bool finding_note(struct finding *finding, const char *format, ...) {
    struct format_buffer text = format_begin(finding->text, sizeof finding->text - 1);
    va_list arguments;
    va_start(arguments, format);
    format_add_v(&text, format, arguments);
    va_end(arguments);
    finding->text[text.length] = '\0';
    return false;
}
