/* Private to the files that know how a command's options are declared. */
#ifndef CCL_CLI_OPTIONS_H
#define CCL_CLI_OPTIONS_H

#include "cli/command.h"

/** Those of base first, which it parses; then what only a command line has. */
typedef enum ccl_i_kind {
    KIND_FLAG = CCL_OPTION_FLAG,
    KIND_CHOICE = CCL_OPTION_CHOICE,
    KIND_U32 = CCL_OPTION_COUNT,
    KIND_SECONDS = CCL_OPTION_TIME,
    KIND_BYTES = CCL_OPTION_BYTES,
    KIND_REPEATED = CCL_OPTION_SCHEDULE + 1, /* --verbose: how often it stands there */
    KIND_TEXT,
    KIND_TEXT_OR_NONE, /* --progress or --progress=json: the value is never the next word */
    KIND_LIST,
    KIND_EDIT, /* a list; the option's name and a colon before each item */
    KIND_U64
} ccl_i_kind_t;

typedef struct ccl_i_own_option {
    const char *name;
    char letter;
    ccl_i_kind_t kind;
    size_t offset;
    const char *value; /* how the help names its value */
    const char *help;
    const char *const *words; /* of choices */
} ccl_i_own_option_t;

enum { CCL_I_MOST_OPTIONS = 160 + CCL_SYNTH_OWN_OPTIONS /* of one command */ };

/** An option of a command: the command line's own, or of a table, whose members stand at `base`. */
typedef struct ccl_i_option_entry {
    const ccl_i_own_option_t *own;
    const ccl_option_t *of;
    size_t base;
    const ccl_option_t *group; /* the table that help has it under; NULL: the command's */
    bool general;
} ccl_i_option_entry_t;

/** All options of a command, its own first, those of groups behind, then the general ones. */
size_t ccl_i_entries(const ccl_i_command_t *command,
                     ccl_i_option_entry_t entries[CCL_I_MOST_OPTIONS]);
/** As it is declared: "rank@job". */
const char *ccl_i_entry_name(const ccl_i_option_entry_t *e);
const char *ccl_i_entry_value(const ccl_i_option_entry_t *e); /**< NULL: it takes none */
/** The value is never the next word: --progress, --progress=json. */
bool ccl_i_value_is_optional(const ccl_i_option_entry_t *e);
/** As it is spelled: "rank@job" is --rank where the command takes that one. */
size_t ccl_i_spelled_len(const char *name);
/** The option of that name, or else of that older name. */
bool ccl_i_find_long(const ccl_i_command_t *command, const char *name, ccl_i_option_entry_t *out);
bool ccl_i_find_letter(const ccl_i_command_t *command, char letter, ccl_i_option_entry_t *out);
/** Does some command have it? */
bool ccl_i_known_elsewhere(const char *name);

#endif
