# heapledger in gdb: dumps of a ledger, and what the ledger says of the program at hand.
#
#   source heapledger.gdb            in gdb, or in ~/.gdbinit
#
#   mdd_dump                 writes the ledger to mddout.0, the next time to mddout.1, and so on, and notes in the
#                            target how far the history was written, so that `heapledger history` of the next file
#                            goes on where this one ends. Refused while the target is in the middle of an update
#                            (busy mark)
#   mdd_dumpnow              the same without asking
#   mdd_reset                begins with mddout.0 again
#   heapledger COMMAND ...   stats, dump, history, errors, whereis ADDRESS ... of the program at hand; any other command
#                            as in a shell
#   heapledger watch ADDRESS stops when somebody writes behind the end of the block that holds the address, and for the
#                            last time when the block is freed
#   heapledger watch-error [N]
#                            stops when somebody writes where error N of `heapledger errors` was found (0 is the first; none
#                            said: the last one). At `break heapledger_error`, say, and then `run`: gdb starts a program
#                            at the same addresses each time, so the next run shows who does it
#
# The numbers of mddout go on in the next session as long as it is the same run of the program: files in the working
# directory that have the ledger's id are not overwritten. A new run begins with mddout.0 again.
#
# It works on a process that gdb runs or is attached to, on a core dump and on a remote target. The command
# `heapledger` must be on the PATH, or named by the environment variable HEAPLEDGER_COMMAND.
#
# Of a ledger in the target's memory the commands name functions by the files that gdb has loaded (`file`, `add-symbol-file`), unless
# --exe is said.
#
# Where the ledger is: $heapledger_ledger if you set it, else the symbol heapledger_ledger (firmware), else the mapping
# of the ledger's file (Linux). On firmware, break on the functions that the recorder is told to call:
#   tbreak heapledger_update_done    an update is complete: mdd_dump is safe
#   break heapledger_history_full    the history ring is full: mdd_dump here each time, and nothing of it is lost
# A Linux ledger never has the busy mark: its elements are published one by one, and one that is being written is
# passed over by readers. Its ring goes round without a call; see the option --history of `heapledger run`.
#
# A copy says when it was made if gdb runs or is attached to the program. Of a core dump that is not known, and a remote
# target may have another clock: then ages count to the last that was recorded, and reports say so.
#
# `set $mdd_keep_history = 1` makes no note in the target: the next file shows the same history, and more.
#
# The first part needs no Python; the second, in a gdb that has it, replaces it and is quicker.

# The next number, whether mdd_reset was called (2: for this ledger), and the id of the ledger that numbers are of.
set $mdd_next = 0
set $mdd_anew = 0
set $mdd_id = 0
set $mdd_id_rest = 0

# -- Part 1: plain ----------------------------------------------------------------------------------------------------

define mdd_reset
  set $mdd_next = 0
  set $mdd_anew = 1
  printf "The next dump is mddout.0.\n"
end
document mdd_reset
Begin with mddout.0 again.
end

# Asks gdb about the program at hand and reads the answer as commands: sets $mdd_pid, $mdd_is_core, $mdd_is_remote,
# $mdd_several, $mdd_map. The mapping is not asked for where the ledger's address is given.
define mdd_ask
  set $mdd_pid = 0
  set $mdd_is_core = 0
  set $mdd_is_remote = 0
  set $mdd_several = 0
  set $mdd_map = 0
  shell rm -f .mddout.ask .mddout.core
  pipe info inferiors | awk '/^[*]/ { if (match($0, /process [0-9]+/)) print "set $mdd_pid = " substr($0, RSTART + 8, RLENGTH - 8); if (/[0-9] [(]core[ )]/) print "set $mdd_is_core = 1"; if (/[0-9] [(](extended-)?remote /) print "set $mdd_is_remote = 1" } /process [0-9]/ && many++ == 1 { print "set $mdd_several = 1" }' > .mddout.ask
  source .mddout.ask
  if $mdd_is_core
    pipe info files | awk -v q="'" '/^Local core dump file/ { take = 1; next } take { sub(/^[^`]*`/, ""); sub(q ", file type .*", ""); print; take = 0 }' > .mddout.core
  end
  if $mdd_pid != 0 && $_isvoid($heapledger_ledger)
    pipe info proc mappings | awk '{ sub(/ [(]deleted[)]$/, "") } $NF ~ /[.]hlive$/ && $4 == "0x0" && !seen++ { print "set $mdd_map = " $1 }' > .mddout.ask
    source .mddout.ask
  end
  shell rm -f .mddout.ask
end

# Of a core dump: whether the ledger lies in it. If it does not, gdb reads the ledger's file, as that is now.
define mdd_moment
  set $mdd_is_of_now = $mdd_is_core
  shell rm -f .mddout.ask
  pipe maintenance info sections | awk '/HAS_CONTENTS/ && match($0, /0x[0-9a-f]+->0x[0-9a-f]+/) { split(substr($0, RSTART, RLENGTH), ends, "->"); print "if (unsigned long) $mdd_base >= " ends[1] " && (unsigned long) $mdd_base < " ends[2] "\nset $mdd_is_of_now = 0\nend" }' > .mddout.ask
  source .mddout.ask
  shell rm -f .mddout.ask
  if $mdd_is_of_now
    printf "The ledger is not in the core dump: this copy is of now, not of the core dump's moment.\n"
  end
end

# Sets $mdd_base and $mdd_ok.
define mdd_find
  mdd_ask
  mdd_base
end

define mdd_base
  set $mdd_ok = 1
  if !$_isvoid($heapledger_ledger)
    set $mdd_base = (unsigned char *) $heapledger_ledger
  else
    if $mdd_map != 0
      set $mdd_base = (unsigned char *) $mdd_map
    else
      set $mdd_ok = 0
      pipe complete print heapledger_ledger | awk '$2 == "heapledger_ledger" && !seen++ { print "set $mdd_ok = 1" }' > .mddout.ask
      source .mddout.ask
      shell rm -f .mddout.ask
      if $mdd_ok
        set $mdd_base = (unsigned char *) &heapledger_ledger
      else
        printf "No ledger found: no mapped ledger and no symbol heapledger_ledger; set $heapledger_ledger to its address.\n"
      end
    end
  end
  if $mdd_ok
    set $mdd_ok = *(unsigned int *) $mdd_base == 0x454c4889 || *(unsigned int *) $mdd_base == 0x89484c45
    if !$mdd_ok && $mdd_is_core
      printf "The ledger was not dumped with the core. Other commands find what the program left: heapledger stats.\n"
    end
    if !$mdd_ok && !$mdd_is_core
      printf "There is no ledger at %p.\n", $mdd_base
    end
  end
end

define mdd_dump_in_c
  mdd_find
  if $mdd_ok && $mdd_asked && *(unsigned short *) ($mdd_base + 54) != 0
    printf "A dump may be unsafe now: the target is in the middle of an update.\n"
    printf "Let it run to heapledger_update_done (tbreak, continue), or use mdd_dumpnow.\n"
    set $mdd_ok = 0
  end
  if $mdd_ok
    mdd_write
  end
end

define mdd_dump
  set $mdd_asked = 1
  with language c -- mdd_dump_in_c
end
document mdd_dump
Write the ledger to mddout.N, unless the target is in the middle of an update.
end

define mdd_dumpnow
  set $mdd_asked = 0
  with language c -- mdd_dump_in_c
end
document mdd_dumpnow
Write the ledger to mddout.N, whatever the target is doing.
end

# $mdd_offset, $mdd_length: part of the ledger, to the end of the copy.
define mdd_part
  eval "append binary memory .mddout.copy %p %p", $mdd_base + $mdd_offset, $mdd_base + $mdd_offset + $mdd_length
end

# $mdd_field: a word of the header, to be $mdd_value in the copy.
define mdd_put
  set $mdd_byte = 0
  shell : > .mddout.ask
  while $mdd_byte < $mdd_word
    set $mdd_shift = 8 * $mdd_byte
    if *(unsigned char *) ($mdd_base + 8) == 1
      set $mdd_shift = 8 * ($mdd_word - 1 - $mdd_byte)
    end
    eval "shell printf '\\%o' >> .mddout.ask", (int) ($mdd_value >> $mdd_shift) & 255
    set $mdd_byte = $mdd_byte + 1
  end
  eval "shell dd if=.mddout.ask of=.mddout.copy bs=1 seek=%lu conv=notrunc 2> /dev/null; rm -f .mddout.ask", (unsigned long) ($mdd_field - $mdd_base)
end

# The time of the copy, behind the section `process`, if the copy is of now by the clock that the program has. A core dump
# is of then, and a remote target may have another clock, or be the replay of what was. 35 bytes.
define mdd_time
  if $mdd_map != 0 && !$mdd_is_core && !$mdd_is_remote
    shell t=`date +%s%N`; case $t in *[!0-9]*) t=`date +%s`000000000;; esac; printf 'copied_unix_ns=%s\0' $t >> .mddout.copy
    set $mdd_end = $mdd_end + 35
    # Used and backed; the capacity if that is less.
    set $mdd_value = $mdd_count + 35
    set $mdd_field = $mdd_field + 2 * $mdd_word
    mdd_put
    set $mdd_field = $mdd_field + $mdd_word
    mdd_put
    if $mdd_capacity < $mdd_value
      set $mdd_field = $mdd_field - 2 * $mdd_word
      mdd_put
    end
  end
end

# Copies what is in use to .mddout.copy, the sections one after another. Only its owner may read it.
define mdd_copy
  set $mdd_word = (unsigned long) *($mdd_base + 11)
  set $mdd_descriptors = (long) *($mdd_base + 56)
  set $mdd_counters = (long) *($mdd_base + 57)
  set $mdd_sections = (long) *($mdd_base + 58)
  # The words history_shown and history_shown_time, if this ledger has them.
  set $mdd_mark = $mdd_base + 64 + $mdd_word * 13
  set $mdd_has_mark = *($mdd_base + 62) > 14
  set $mdd_first = 64 + $mdd_word * $mdd_counters
  set $mdd_row = ($mdd_first + 4 * $mdd_descriptors + $mdd_word - 1) / $mdd_word * $mdd_word
  shell rm -f .mddout.copy; umask 077; : > .mddout.copy
  set $mdd_offset = (unsigned long) 0
  set $mdd_length = (unsigned long) *(unsigned short *) ($mdd_base + 52)
  mdd_part
  set $mdd_end = $mdd_length
  # Flag bit 3: a copy, as of one moment.
  set $mdd_low = 14
  if *(unsigned char *) ($mdd_base + 8) == 1
    set $mdd_low = 15
  end
  eval "shell printf '\\%o' | dd of=.mddout.copy bs=1 seek=%d conv=notrunc 2> /dev/null", (int) *($mdd_base + $mdd_low) | 8, $mdd_low
  set $mdd_ring_count = 0
  set $mdd_left = $mdd_sections
  set $mdd_place = $mdd_base + $mdd_row
  while $mdd_left > 0
    set $mdd_kind = *(unsigned short *) $mdd_place
    set $mdd_bytes = (unsigned long) *(unsigned short *) ($mdd_place + 2)
    if $mdd_word == 8
      set $mdd_field = $mdd_place + 8
      set $mdd_offset = *(unsigned long *) ($mdd_place + 8)
      set $mdd_capacity = *(unsigned long *) ($mdd_place + 16)
      set $mdd_count = *(unsigned long *) ($mdd_place + 24)
      set $mdd_backed = *(unsigned long *) ($mdd_place + 32)
      set $mdd_place = $mdd_place + 40
    else
      set $mdd_field = $mdd_place + 4
      set $mdd_offset = (unsigned long) *(unsigned int *) ($mdd_place + 4)
      set $mdd_capacity = (unsigned long) *(unsigned int *) ($mdd_place + 8)
      set $mdd_count = (unsigned long) *(unsigned int *) ($mdd_place + 12)
      set $mdd_backed = (unsigned long) *(unsigned int *) ($mdd_place + 16)
      set $mdd_place = $mdd_place + 20
    end
    if $mdd_backed < $mdd_count
      set $mdd_count = $mdd_backed
    end
    if $mdd_capacity < $mdd_count
      set $mdd_count = $mdd_capacity
    end
    if $mdd_kind == 2
      set $mdd_ring_count = $mdd_count
      set $mdd_ring_bytes = $mdd_bytes
    end
    set $mdd_length = $mdd_count * $mdd_bytes
    if $mdd_length > 0
      # To the next multiple of 64 bytes.
      set $mdd_value = ($mdd_end + 63) / 64 * 64
      eval "shell dd if=/dev/null of=.mddout.copy bs=1 seek=%lu 2> /dev/null", $mdd_value
      if $mdd_kind == 2
        set $mdd_ring_at = $mdd_value
      end
      set $mdd_end = $mdd_value + $mdd_length
      mdd_part
      mdd_put
      if $mdd_kind == 9
        mdd_time
      end
    end
    set $mdd_left = $mdd_left - 1
  end
end

# Sets $mdd_number, of the next file. On the same ledger (its id, bytes 32 to 47) numbers go on, in this session and
# behind those of the files that are there; on another one they begin with 0, unless this session looks at several
# programs. After mdd_reset only this session counts.
define mdd_choose
  if $mdd_id != *(unsigned long long *) ($mdd_base + 32) || $mdd_id_rest != *(unsigned long long *) ($mdd_base + 40)
    if !$mdd_several
      set $mdd_next = 0
    end
    # Another ledger ends what mdd_reset began.
    if $mdd_anew == 2
      set $mdd_anew = 0
    end
  end
  set $mdd_id = *(unsigned long long *) ($mdd_base + 32)
  set $mdd_id_rest = *(unsigned long long *) ($mdd_base + 40)
  set $mdd_number = $mdd_next
  if $mdd_anew == 0 && ($mdd_id != 0 || $mdd_id_rest != 0)
    shell id=`od -An -v -tx1 -N48 .mddout.copy | tr -d ' \n' | cut -c65-96`; n=0; for f in mddout.*; do k=${f#mddout.}; case $k in ''|*[!0-9]*|0?*|?????????*) continue;; esac; case `od -An -v -tx1 -N48 "$f" 2> /dev/null | tr -d ' \n'` in 89484c4544470d0a*$id) if [ "$k" -ge "$n" ]; then n=$((k + 1)); fi;; esac; done; echo "set \$mdd_found = $n" > .mddout.ask
    source .mddout.ask
    shell rm -f .mddout.ask
    if $mdd_number < $mdd_found
      set $mdd_number = $mdd_found
    end
  end
  if $mdd_anew == 1
    set $mdd_anew = 2
  end
end

define mdd_write
  mdd_copy
  mdd_choose
  eval "shell mv -f .mddout.copy mddout.%d", $mdd_number
  printf "The ledger is in mddout.%d.\n", $mdd_number
  if $mdd_is_core
    mdd_moment
  end
  set $mdd_next = $mdd_number + 1
  if $mdd_ring_count > 0 && $mdd_has_mark && ($_isvoid($mdd_keep_history) || !$mdd_keep_history) && !$mdd_is_core
    mdd_note_shown
  end
end

# Notes in the header how far the history is shown, by the greatest number and time of a free in mddout.$mdd_number,
# which is complete: od prints it word by word, and awk compares their digits. Entries are not touched. A field that
# does not consist of whole digits cannot be read so: then nothing is noted, and the next file shows it again.
define mdd_note_shown
  set $mdd_left = $mdd_descriptors
  set $mdd_place = $mdd_base + $mdd_first
  set $mdd_end_bit = 0
  set $mdd_end_bits = 0
  set $mdd_time_bit = 0
  set $mdd_time_bits = 0
  while $mdd_left > 0
    if *$mdd_place == 64
      set $mdd_end_bits = (int) *($mdd_place + 1)
      set $mdd_end_bit = (int) *(unsigned short *) ($mdd_place + 2)
    end
    if *$mdd_place == 68
      set $mdd_time_bits = (int) *($mdd_place + 1)
      set $mdd_time_bit = (int) *(unsigned short *) ($mdd_place + 2)
    end
    set $mdd_place = $mdd_place + 4
    set $mdd_left = $mdd_left - 1
  end
  if $mdd_end_bits > 0 && ($mdd_end_bits | $mdd_end_bit | $mdd_time_bits | $mdd_time_bit) % 4 == 0
    eval "shell echo 'file=mddout.%d word=%d bytes=%d at=%lu count=%lu end=%d ends=%d time=%d times=%d big=%d' > .mddout.ask", $mdd_number, (int) $mdd_word, (int) $mdd_ring_bytes, $mdd_ring_at, $mdd_ring_count, $mdd_end_bit, $mdd_end_bits, $mdd_time_bit, $mdd_time_bits, (int) (*(unsigned char *) ($mdd_base + 8) == 1)
    shell . ./.mddout.ask; if [ $big = 1 ]; then order=big; else order=little; fi; od -An -v -tx$word -w$bytes --endian=$order -j$at -N$((count * bytes)) $file | awk -v bits=$((8 * word)) -v end=$end -v ends=$ends -v time=$time -v times=$times 'function field(bit, width,  word) { word = $(int(bit / bits) + 1); return substr(word, length(word) - (bit % bits + width) / 4 + 1, width / 4) } { n = field(end, ends); if (n !~ /[1-9a-f]/) next; if ("x" n > "x" last) last = n; if (times > 0) { t = field(time, times); if ("x" t > "x" then) then = t } } END { if (last != "") print "set $mdd_shown = 0x" last; if (last != "") print "set $mdd_shown_time = 0x" (then == "" ? "0" : then) }' > .mddout.mark
    set $mdd_shown = 0
    set $mdd_shown_time = 0
    source .mddout.mark
    shell rm -f .mddout.ask .mddout.mark
    if $mdd_shown != 0
      if $mdd_word == 8
        set var *(unsigned long long *) $mdd_mark = $mdd_shown
        set var *(unsigned long long *) ($mdd_mark + 8) = $mdd_shown_time
      else
        set var *(unsigned int *) $mdd_mark = $mdd_shown
        set var *(unsigned int *) ($mdd_mark + 4) = $mdd_shown_time
      end
    end
  end
end

# The copy that was just made shows all of the history, whatever earlier ones show.
define mdd_show_all
  if $mdd_has_mark
    set $mdd_value = 0
    set $mdd_field = $mdd_mark
    mdd_put
    set $mdd_field = $mdd_mark + $mdd_word
    mdd_put
  end
end

# The ledger's commands about the program at hand: a process by its number, a core dump by its name, else a copy of the
# ledger out of the target's memory.
define mdd_target
  mdd_ask
  set $mdd_ok = 1
  shell rm -f .mddout.target .mddout.exe
  if $mdd_is_core
    shell mv .mddout.core .mddout.target
  else
    if $mdd_map != 0 && !$mdd_is_remote
      eval "shell echo %d > .mddout.target", $mdd_pid
    else
      mdd_base
      if $mdd_ok
        mdd_copy
        mdd_show_all
        shell mv -f .mddout.copy mddout.target; echo mddout.target > .mddout.target
        # The file that gdb has loaded, if it lies where it says (type 2 of ELF).
        # All is read, though the first line does: gdb gives up where nobody reads on.
        pipe info files | awk '/^Symbols from "/ && !done++ { sub(/^Symbols from "/, ""); sub(/"[.]$/, ""); print }' > .mddout.exe
        shell read -r exe < .mddout.exe; case `od -An -tu1 -j16 -N2 "$exe" 2> /dev/null | tr -d ' '` in 20|02) printf '%s\n' "--exe=$exe" > .mddout.exe;; *) : > .mddout.exe;; esac
      end
    end
  end
end

# .mddout.words has the command's name and options, a line each.
define mdd_say
  mdd_target
  if $mdd_ok
    shell if [ ! -f .mddout.exe ] || grep -q -e '^--exe' -e '^snapshot$' .mddout.words; then : > .mddout.exe; fi; { head -n 1 .mddout.words; cat .mddout.target .mddout.exe; tail -n +2 .mddout.words; } | tr '\n' '\0' | xargs -0 "${HEAPLEDGER_COMMAND:-heapledger}"
  end
  shell rm -f .mddout.words .mddout.target .mddout.exe .mddout.core mddout.target
end

define-prefix heapledger

define heapledger stats
  shell echo stats > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger stats
heapledger stats of the program at hand. Words are quoted as in a shell.
end

define heapledger dump
  shell echo dump > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger dump
heapledger dump of the program at hand. Words are quoted as in a shell.
end

define heapledger errors
  shell echo errors > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger errors
heapledger errors of the program at hand. Words are quoted as in a shell.
end

define heapledger history
  shell echo history > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger history
heapledger history of the program at hand. Words are quoted as in a shell.
end

define heapledger tree
  shell echo tree > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger tree
heapledger tree of the program at hand. Words are quoted as in a shell.
end

define heapledger flame
  shell echo flame > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger flame
heapledger flame of the program at hand. Words are quoted as in a shell.
end

define heapledger check
  shell echo check > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger check
heapledger check of the program at hand. Words are quoted as in a shell.
end

define heapledger snapshot
  shell echo snapshot > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  with language c -- mdd_say
end
document heapledger snapshot
heapledger snapshot of the program at hand. Words are quoted as in a shell.
end

define heapledger diff
  shell echo diff > .mddout.words
  set $mdd_arg = 0
  while $mdd_arg < $argc
    eval "shell printf '%%s\\n' $arg%d >> .mddout.words", $mdd_arg
    set $mdd_arg = $mdd_arg + 1
  end
  shell tr '\n' '\0' < .mddout.words | xargs -0 "${HEAPLEDGER_COMMAND:-heapledger}"; rm -f .mddout.words
end
document heapledger diff
heapledger diff A B: two files that mdd_dump wrote, say.
end

define mdd_whereis
  set $mdd_address = (unsigned long) ($arg0)
  mdd_target
  if $mdd_ok
    eval "shell { printf '%%s\\n' whereis; cat .mddout.target .mddout.exe 2> /dev/null; echo %#lx; } | tr '\\n' '\\0' | xargs -0 \"${HEAPLEDGER_COMMAND:-heapledger}\"", $mdd_address
  end
  shell rm -f .mddout.target .mddout.exe .mddout.core mddout.target
end

define heapledger whereis
  if $argc == 1
    with language c -- mdd_whereis $arg0
  else
    printf "whereis needs one address\n"
  end
end
document heapledger whereis
heapledger whereis ADDRESS: which block it is in. An expression without blanks.
end

define mdd_watch
  set $mdd_address = (unsigned long) ($arg0)
  set $mdd_start = 0
  mdd_target
  if $mdd_ok && $mdd_is_core
    printf "A core dump does not run: nothing can be watched.\n"
    set $mdd_ok = 0
  end
  if $mdd_ok
    eval "shell \"${HEAPLEDGER_COMMAND:-heapledger}\" whereis --json --limit 1 \"`cat .mddout.target`\" %#lx > .mddout.answer 2>&1", $mdd_address
    shell awk '/^[{]"type":"place"/ { found = 1; if (/"block":null/) print "echo The address is in no live block.\\n"; else if (match($0, /"block":[{]"address":"0x[0-9a-f]+","size":[0-9]+,"actual":[0-9]+/)) { split(substr($0, RSTART, RLENGTH), part, /[{:,"]+/); print "set $mdd_start = " part[4] "\nset $mdd_size = " part[6] "\nset $mdd_actual = " part[8]; if (match($0, /"number":[0-9]+/)) print "set $mdd_block = " substr($0, RSTART + 9, RLENGTH - 9) } else print "echo It is not known where the block ends.\\n" } END { if (!found) print "shell cat .mddout.answer" }' .mddout.answer > .mddout.ask
    source .mddout.ask
  end
  shell rm -f .mddout.ask .mddout.answer .mddout.target .mddout.exe .mddout.core mddout.target
  if $mdd_start != 0
    if $mdd_actual <= $mdd_size
      printf "The block at %#lx has no bytes behind the %lu asked for: a write behind its end is a write into what is beside it, which cannot be told from a right one.\n", (unsigned long) $mdd_start, (unsigned long) $mdd_size
    else
      mdd_watch_end
    end
  end
end

# At $mdd_at, $mdd_width bytes. (A choice between two texts would have gdb call the program's malloc for them.)
define mdd_watch_place
  if $mdd_width == 1
    eval "watch *(char *) %#lx", (unsigned long) $mdd_at
  end
  if $mdd_width == 2
    eval "watch *(short *) %#lx", (unsigned long) $mdd_at
  end
  if $mdd_width == 4
    eval "watch *(int *) %#lx", (unsigned long) $mdd_at
  end
  if $mdd_width == 8
    eval "watch *(long long *) %#lx", (unsigned long) $mdd_at
  end
end

# One debug register, aligned as the processor wants it.
define mdd_watch_end
  set $mdd_width = 1
  while $mdd_width < 8 && ($mdd_start + $mdd_size) % (2 * $mdd_width) == 0 && $mdd_actual - $mdd_size >= 2 * $mdd_width
    set $mdd_width = 2 * $mdd_width
  end
  set $mdd_at = $mdd_start + $mdd_size
  mdd_watch_place
  set $mdd_guard = $bpnum
  printf "Watching %d byte(s) behind the %lu asked for in the block at %#lx.\n", $mdd_width, (unsigned long) $mdd_size, (unsigned long) $mdd_start
  mdd_find
  if $mdd_ok
    mdd_record
    if $mdd_record != 0
      set $mdd_at = $mdd_record
      set $mdd_width = $mdd_word
      mdd_watch_place
      eval "shell printf 'commands %%d\nsilent\nmdd_watch_ended %d %d %#lx\nend\ncommands %d\nmdd_in_realloc\nend\n' %d > .mddout.ask", $mdd_guard, $bpnum, (unsigned long) $mdd_start, $mdd_guard, $bpnum
      source .mddout.ask
      shell rm -f .mddout.ask
      printf "Watching its record, too: it tells when the block is freed.\n"
    end
  end
end

# Sets $mdd_record: where the record of block $mdd_block lies, whose commit word is its number plus 1; 0 if it is not found.
# In a ledger of little-endian words.
define mdd_record
  set $mdd_record = 0
  set $mdd_word = (unsigned long) *($mdd_base + 11)
  set $mdd_place = $mdd_base + ((unsigned long) 64 + $mdd_word * *($mdd_base + 57) + 4 * *($mdd_base + 56) + $mdd_word - 1) / $mdd_word * $mdd_word
  set $mdd_left = (long) *($mdd_base + 58)
  set $mdd_from = 0
  while $mdd_left > 0 && *($mdd_base + 8) == 2
    if *(unsigned short *) $mdd_place == 1
      set $mdd_bytes = (unsigned long) *(unsigned short *) ($mdd_place + 2)
      if $mdd_word == 8
        set $mdd_from = (unsigned long) $mdd_base + *(unsigned long *) ($mdd_place + 8)
        set $mdd_upto = $mdd_from + $mdd_bytes * *(unsigned long *) ($mdd_place + 24)
      else
        set $mdd_from = (unsigned long) $mdd_base + *(unsigned int *) ($mdd_place + 4)
        set $mdd_upto = $mdd_from + $mdd_bytes * *(unsigned int *) ($mdd_place + 12)
      end
    end
    set $mdd_place = $mdd_place + ($mdd_word == 8 ? 40 : 20)
    set $mdd_left = $mdd_left - 1
  end
  set $mdd_at = $mdd_from
  set $mdd_commit = (unsigned long long) $mdd_block + 1
  while $mdd_from != 0 && $mdd_record == 0 && $mdd_at < $mdd_upto
    # Four bytes are enough to find it, and all six tell it from others.
    eval "pipe find /w1 %#lx, +%lu, %#x | awk '/^0x/ { found = 1 } END { print \"set $mdd_any = \" found + 0 }' > .mddout.ask", $mdd_at, $mdd_upto - $mdd_at, (unsigned int) $mdd_commit
    source .mddout.ask
    if $mdd_any
      set $mdd_at = (unsigned long) $_
      if ($mdd_at - $mdd_from) % $mdd_bytes == 0 && ($mdd_word == 4 || (*(unsigned long long *) $mdd_at & 0xffffffffffff) == $mdd_commit)
        set $mdd_record = $mdd_at
      end
      set $mdd_at = $mdd_at + 1
    else
      set $mdd_at = $mdd_upto
    end
  end
  shell rm -f .mddout.ask
end

# What the commands of the two watchpoints run: the guard's number, the record's, the block's address.
define mdd_watch_ended
  pipe backtrace 24 | awk '/^#/ { name = ""; if (match($0, / in [^(]+ [(]/)) name = substr($0, RSTART + 4, RLENGTH - 6); else if (match($0, /^#[0-9]+ +[^0 ][^(]* [(]/)) { name = substr($0, RSTART, RLENGTH - 2); sub(/^#[0-9]+ +/, "", name) } if (/libheapledger/) { inside = 1; by = name; next } if (inside && !done) { who = name; rest = $0; sub(/.*[)] /, "", rest); if (rest ~ /^(at|from) /) who = who " " rest; done = 1 } } END { if (done) printf " by %s in %s", by, who }' > .mddout.who
  eval "shell echo \"The block at %#lx was freed`cat .mddout.who`: the watch has ended.\"; rm -f .mddout.who", (unsigned long) $arg2
  delete $arg0 $arg1
end

# realloc may write into the end of the block that it is about to free.
define mdd_in_realloc
  pipe backtrace 24 | awk '/^#.*libheapledger/ { found = 1 } END { print "set $mdd_inside = " found + 0 }' > .mddout.ask
  source .mddout.ask
  shell rm -f .mddout.ask
  if $mdd_inside
    continue
  end
end

define heapledger watch
  if $argc == 1
    with language c -- mdd_watch $arg0
  else
    printf "watch needs one address\n"
  end
end
document heapledger watch
heapledger watch ADDRESS: stop when somebody writes behind the end of the block that holds it, and when it is freed. An
expression without blanks.
end

# $arg0: the error's row; below 0: the last one.
define mdd_watch_error
  set $mdd_row = (long) ($arg0)
  set $mdd_start = 0
  mdd_target
  if $mdd_ok && $mdd_is_core
    printf "A core dump does not run: nothing can be watched.\n"
    set $mdd_ok = 0
  end
  if $mdd_ok
    eval "shell echo %ld > .mddout.row", $mdd_row
    shell "${HEAPLEDGER_COMMAND:-heapledger}" errors --json --limit 0 "`cat .mddout.target`" > .mddout.answer 2>&1
    shell awk -v wanted=`cat .mddout.row` '/^[{]"type":"header"/ { told = 1 } /^[{]"type":"error"/ { match($0, /"row":[0-9]+/); row = substr($0, RSTART + 6, RLENGTH - 6); if (wanted >= 0 && row != wanted) next; found = 1; address = ""; if (match($0, /"address":"0x[0-9a-f]+","bytes":[1-9][0-9]*/)) { split(substr($0, RSTART, RLENGTH), part, /[:",]+/); address = part[3]; bytes = part[5]; block = size = 0; if (match($0, /"block":"0x[0-9a-f]+","block_bytes":[0-9]+/)) { split(substr($0, RSTART, RLENGTH), part, /[:",]+/); block = part[3]; size = part[5] } } error = row } END { if (!told) print "shell cat .mddout.answer"; else if (!found) print "echo There is no such error.\\n"; else if (address == "") print "echo Error " error " is of no bytes that somebody wrote or read.\\n"; else print "set $mdd_start = " address "\nset $mdd_bytes = " bytes "\nset $mdd_block = " block "\nset $mdd_size = " size "\nset $mdd_row = " error }' .mddout.answer > .mddout.ask
    source .mddout.ask
  end
  shell rm -f .mddout.ask .mddout.answer .mddout.row .mddout.target .mddout.exe .mddout.core mddout.target
  if $mdd_start != 0
    # As far as it is aligned, and no byte of the block itself: to write into that is right.
    set $mdd_width = 1
    while $mdd_width < 8 && $mdd_start % (2 * $mdd_width) == 0 && ($mdd_start + 2 * $mdd_width <= $mdd_block || $mdd_start >= $mdd_block + $mdd_size || 2 * $mdd_width <= $mdd_bytes)
      set $mdd_width = 2 * $mdd_width
    end
    set $mdd_at = $mdd_start
    mdd_watch_place
    eval "shell printf 'commands %d\nmdd_if_ours\nend\n' > .mddout.ask", $bpnum
    source .mddout.ask
    shell rm -f .mddout.ask
    printf "Watching %d byte(s) at %#lx, where error %d was found.\n", $mdd_width, (unsigned long) $mdd_start, $mdd_row
  end
end

# The guard itself writes what lies around blocks.
define mdd_if_ours
  pipe backtrace 1 | awk '/^#0.*libheapledger/ { found = 1 } END { print "set $mdd_inside = " found + 0 }' > .mddout.ask
  source .mddout.ask
  shell rm -f .mddout.ask
  if $mdd_inside
    continue
  end
end

define heapledger watch-error
  if $argc == 0
    with language c -- mdd_watch_error -1
  else
    if $argc == 1
      with language c -- mdd_watch_error $arg0
    else
      printf "watch-error takes the number of an error, or nothing\n"
    end
  end
end
document heapledger watch-error
heapledger watch-error [N]: stop when somebody writes where error N was found, by default the last one. In the next run, too:
gdb starts a program at the same addresses each time.
end

# -- Part 2: Python ---------------------------------------------------------------------------------------------------
# A gdb without Python lacks the function $_strlen, which is written in it.

if !$_isvoid($_strlen)
  python
import json, os, re, shlex, shutil, struct, subprocess, tempfile, time
import gdb

MAGIC = b"\x89HLEDG\r\n"
RECORDS, HISTORY, PROCESS = 1, 2, 9
NUMBER, FREED_NUMBER, FREED_TIME = 1, 64, 68
COPY = 8
# The counters history_shown and history_shown_time.
SHOWN = 13
STEP = 1 << 20
DONE, FULL = "heapledger_update_done", "heapledger_history_full"

def program():
    return os.environ.get("HEAPLEDGER_COMMAND", "heapledger")

def fail(text):
    raise gdb.GdbError("heapledger: " + text)

def output(words):
    try:
        return subprocess.run([program()] + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as reason:
        fail("%s: %s; put it on the PATH, or name it in HEAPLEDGER_COMMAND" % (program(), reason.strerror))

def show(words):
    gdb.write(output(words).stdout.decode(errors="replace"))

def in_c(expression):
    """The value of an expression of C, whatever language the program is in."""
    language = gdb.parameter("language")
    gdb.execute("set language c", to_string=True)
    try:
        return gdb.parse_and_eval(expression)
    finally:
        gdb.execute("set language " + language, to_string=True)

def number(text):
    """An address as a person types it: an expression."""
    try:
        value = gdb.parse_and_eval(text)
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
            value = value.address
        return int(value) & (1 << 64) - 1
    except gdb.error:
        return int(in_c("(unsigned long) (%s)" % text))

class Target:
    """The program at hand: how gdb sees it, and where its ledger is."""

    def __init__(self):
        self.inferior = gdb.selected_inferior()
        if not self.inferior.pid and not self.inferior.threads():
            fail("no program: run or attach to one, connect to a target, or open a core dump")
        try:
            kind = self.inferior.connection.type
        except AttributeError:
            kind = ""
        self.is_core = kind == "core"
        self.is_native = kind == "native"
        self.core = self.core_file() if self.is_core else None

    @staticmethod
    def core_file():
        lines = iter(gdb.execute("info files", to_string=True).splitlines())
        for line in lines:
            if line.startswith("Local core dump file"):
                return next(lines, "").strip()[1:].split("', file type ")[0] or None
        return None

    def mapping(self):
        """Where the first page of a live file is mapped."""
        try:
            lines = gdb.execute("info proc mappings", to_string=True).splitlines()
        except gdb.error:
            return None
        for line in lines:
            words = line.replace(" (deleted)", "").split()
            if words and words[-1].endswith(".hlive"):
                figures = [int(word, 16) for word in words[:4] if word.startswith("0x")]
                if len(figures) >= 4 and figures[3] == 0:
                    return figures[0]
        return None

    def symbol(self):
        given = gdb.convenience_variable("heapledger_ledger")
        if given is not None:
            return int(given)
        try:
            return int(in_c("(unsigned long) &heapledger_ledger"))
        except gdb.error:
            return None

    def is_of_now(self, address):
        """Whether gdb reads what is at an address of a core dump from the file that was mapped, as that is now."""
        if not self.is_core:
            return False
        for line in gdb.execute("maintenance info sections", to_string=True).splitlines():
            ends = re.search("(0x[0-9a-f]+)->(0x[0-9a-f]+)", line)
            if ends and "HAS_CONTENTS" in line and int(ends[1], 16) <= address < int(ends[2], 16):
                return False
        return True

    def read(self, address, count):
        return bytes(self.inferior.read_memory(address, count))

    def programs(self):
        """Files that name the functions of a ledger in the target's memory: those that gdb has loaded, if they lie where they say (type 2
        of ELF)."""
        found = []
        for path in [one.filename for one in gdb.objfiles()]:
            try:
                with open(path, "rb") as file:
                    start = file.read(18)
            except (OSError, TypeError):
                continue
            if start[:4] == b"\x7fELF" and start[16:] in (b"\2\0", b"\0\2") and path not in found:
                found.append(path)
        return found

    def ledger(self):
        address = self.symbol()
        if address is None:
            address = self.mapping()
        if address is None:
            fail("no ledger found: no symbol heapledger_ledger and no mapped ledger; set $heapledger_ledger to its address")
        return Ledger(self, address)

    def name(self, keep):
        """What the command is given: a process, a core dump, or else a copy of the ledger that is made in `keep`."""
        if self.symbol() is None:
            if self.is_core:
                return self.core or fail("gdb does not say where the core dump is")
            if self.is_native:
                return str(self.inferior.pid)
        path = os.path.join(keep, "mddout.target")
        self.ledger().save(path, show_all=True)
        return path

class Ledger:
    """A ledger in the target's memory."""

    def __init__(self, target, address):
        self.target, self.address = target, address
        try:
            fixed = target.read(address, 64)
        except gdb.MemoryError:
            fixed = b""
        if fixed[:8] != MAGIC or fixed[8:10] not in (b"\x01\x02", b"\x02\x01"):
            if target.is_core:
                fail("the ledger was not dumped with the core; other commands find what the program left: heapledger stats")
            fail("there is no ledger at %#x" % address)
        self.order = "<" if fixed[8] == 2 else ">"
        self.word = fixed[11]
        (length, self.busy) = struct.unpack(self.order + "HH", fixed[52:56])
        if self.word not in (4, 8) or not 64 <= length <= 4096:
            fail("the ledger at %#x is damaged" % address)
        self.id = fixed[32:48]
        # Where the marks are that say how much of the history was shown; None in ledgers without them.
        self.shown_at = 64 + SHOWN * self.word if fixed[62] > SHOWN + 1 else None
        self.header = bytearray(target.read(address, length))
        descriptors, counters, rows = fixed[56], fixed[57], fixed[58]
        first = 64 + counters * self.word
        end = first + descriptors * 4
        table = (end + self.word - 1) // self.word * self.word
        size, form = (40, "HHIQQQQ") if self.word == 8 else (20, "HHIIII")
        if table + rows * size > length:
            fail("the ledger at %#x is damaged" % address)
        self.descriptors = [struct.unpack_from(self.order + "BBH", self.header, first + 4 * n) for n in range(descriptors)]
        self.sections = []
        # Where each section's offset stands in the header.
        self.rows = [table + row * size + (8 if self.word == 8 else 4) for row in range(rows)]
        for row in range(rows):
            fields = struct.unpack_from(self.order + form, self.header, table + row * size)
            if self.word == 8:
                kind, width, _, offset, capacity, used, backed = fields
            else:
                kind, width, offset, capacity, used, backed = fields
            self.sections.append((kind, width, offset, min(used, backed, capacity)))

    def save(self, path, show_all=False):
        """Copies what is in use to a new file, the sections one after another. Only its owner may read it, and it has
        its name when it is complete. Says what is to be noted when it is there."""
        shown = (0, 0)
        header = bytearray(self.header)
        flags = struct.unpack_from(self.order + "H", header, 14)[0] | COPY
        words = self.order + "QI"[self.word == 4]
        struct.pack_into(self.order + "H", header, 14, flags)
        if show_all and self.shown_at is not None:
            struct.pack_into(self.order + "QI"[self.word == 4] * 2, header, self.shown_at, 0, 0)
        part = "%s.%d.part" % (path, os.getpid())
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(header)
                for row, (kind, width, offset, count) in zip(self.rows, self.sections):
                    if not width or not count:
                        continue
                    place = (file.tell() + 63) // 64 * 64
                    struct.pack_into(words, header, row, place)
                    file.seek(place)
                    # Whole elements at a time.
                    step = max(1, STEP // width) * width
                    for at in range(offset, offset + width * count, step):
                        data = self.target.read(self.address + at, min(step, offset + width * count - at))
                        file.write(data)
                        if kind == HISTORY:
                            shown = tuple(map(max, shown, self.last_of(data, width)))
                    if kind == PROCESS and self.has_our_time():
                        file.write(b"copied_unix_ns=%d\0" % int(time.time() * 1e9))
                        count = file.tell() - place
                        capacity = max(count, struct.unpack_from(words, header, row + self.word)[0])
                        for at, value in enumerate((capacity, count, count), 1):
                            struct.pack_into(words, header, row + at * self.word, value)
                file.seek(0)
                file.write(header)
            os.replace(part, path)
        except OSError as reason:
            fail("%s: %s" % (path, reason.strerror))
        except gdb.MemoryError as reason:
            fail("the ledger at %#x cannot be read: %s" % (self.address, reason))
        finally:
            if os.path.exists(part):
                os.unlink(part)
        return shown

    def field(self, which):
        """Word, shift and mask of a field of records and history."""
        for field, width, place in self.descriptors:
            if field == which:
                return place // (8 * self.word), place % (8 * self.word), (1 << width) - 1
        return None

    def words(self, data, width, which):
        """A field of all elements in `data`."""
        word, shift, mask = self.field(which)
        words = struct.unpack(self.order + "%d%s" % (len(data) // self.word, "QI"[self.word == 4]), data)
        return [value >> shift & mask for value in words[word::width // self.word]]

    def last_of(self, data, width):
        """The greatest commit word and the greatest time of these history entries."""
        if not self.field(FREED_NUMBER):
            return 0, 0
        numbers = self.words(data, width, FREED_NUMBER)
        times = self.words(data, width, FREED_TIME) if self.field(FREED_TIME) else [0]
        # What lies in a vacant entry means nothing.
        return max(numbers), max((time for number, time in zip(numbers, times) if number), default=0)

    def has_our_time(self):
        """Whether the copy is of now, by the clock that the program has. A core dump is of then, a remote target may
        have another clock, or be the replay of what was, and what lies at a symbol was put there by anybody."""
        return self.target.is_native and self.target.symbol() is None

    def note_shown(self, shown):
        """Notes in the header how far the history is shown by a copy that is safe. Entries are not touched: others read
        them, and a thread may have been halted while it was writing one."""
        if self.shown_at is None or not shown[0]:
            return
        # Whatever is freed from here on has a later time: clocks that tick 100 times a second have moved on.
        time.sleep(0.02)
        marks = struct.pack(self.order + "QI"[self.word == 4] * 2, *shown)
        self.target.inferior.write_memory(self.address + self.shown_at, marks)

    def record(self, number):
        """Where the commit word of a live block lies."""
        for kind, width, offset, count in self.sections:
            if kind != RECORDS or not width or not self.field(NUMBER):
                continue
            step = max(1, STEP // width) * width
            for at in range(offset, offset + width * count, step):
                data = self.target.read(self.address + at, min(step, offset + width * count - at))
                try:
                    index = self.words(data, width, NUMBER).index(number + 1)
                except ValueError:
                    continue
                return self.address + at + index * width + self.field(NUMBER)[0] * self.word
        return None

    def next_number(self):
        """Behind the files in the working directory that are copies of this ledger."""
        found = -1
        for name in os.listdir("."):
            number = re.fullmatch("mddout[.](0|[1-9][0-9]{0,8})", name)
            try:
                with open(name, "rb") as file:
                    start = file.read(48) if number else b""
            except OSError:
                continue
            if start[:8] == MAGIC and start[32:] == self.id:
                found = max(found, int(number[1]))
        return found + 1

class Numbers:
    """Of the files. On the same ledger numbers go on, in this session and behind those of the files that are there; on
    another one they begin with 0, unless this session looks at several programs. After mdd_reset only this session
    counts."""
    next, id, anew = 0, None, False

    @classmethod
    def of(cls, ledger):
        several = sum(1 for inferior in gdb.inferiors() if inferior.pid) > 1
        if cls.id != ledger.id and cls.id is not None:
            cls.anew = False
            if not several:
                cls.next = 0
        cls.id = ledger.id
        if cls.anew or not any(ledger.id):
            return cls.next
        return max(cls.next, ledger.next_number())

class Reset(gdb.Command):
    """Begin with mddout.0 again."""

    def __init__(self):
        super().__init__("mdd_reset", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        Numbers.next, Numbers.id, Numbers.anew = 0, None, True
        gdb.write("The next dump is mddout.0.\n")

Reset()

class Dump(gdb.Command):
    def __init__(self, name, asks):
        self.__doc__ = "Write the ledger to mddout.N" + (", unless the target is in the middle of an update." if asks else ", whatever the target is doing.")
        self.asks = asks
        super().__init__(name, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        target = Target()
        ledger = target.ledger()
        if self.asks and ledger.busy:
            known = gdb.lookup_global_symbol(DONE) or gdb.lookup_static_symbol(DONE)
            then = "let it run to %s (tbreak %s, continue)" % (DONE, DONE) if known else "let it run on for a moment"
            fail("a dump may be unsafe now: the target is in the middle of an update; %s, or use mdd_dumpnow" % then)
        count = Numbers.of(ledger)
        path = "mddout.%d" % count
        shown = ledger.save(path)
        Numbers.next = count + 1
        if not target.is_core and not gdb.convenience_variable("mdd_keep_history"):
            ledger.note_shown(shown)
        gdb.write("The ledger is in %s.\n" % path)
        if target.is_of_now(ledger.address):
            gdb.write("The ledger is not in the core dump: this copy is of now, not of the core dump's moment.\n")

Dump("mdd_dump", True)
Dump("mdd_dumpnow", False)

class Prefix(gdb.Command):
    """Commands of heapledger about the program at hand: heapledger help lists them.

heapledger stats|dump|history|errors|whereis|... [OPTIONS]   of the process, the core dump, or the ledger in the target's memory
heapledger watch ADDRESS   stop when somebody writes behind the end of the block that holds ADDRESS, and when it is freed
heapledger watch-error [N] stop when somebody writes where error N was found, by default the last one; in the next run, too
Commands that compare or name ledgers themselves (diff, recover, run, help, ...) are passed on as they are."""

    OF_THE_TARGET = ("stats", "dump", "history", "errors", "whereis", "tree", "flame", "check", "snapshot")

    def __init__(self):
        super().__init__("heapledger", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        words = shlex.split(argument)
        if not words:
            return show(["help"])
        if words[0] not in self.OF_THE_TARGET + ("watch", "watch-error"):
            return show(words)
        keep = tempfile.mkdtemp(prefix="heapledger-gdb-")
        try:
            target = Target()
            name = target.name(keep)
            if words[0] == "watch":
                return watch(name, words[1:])
            if words[0] == "watch-error":
                return watch_error(name, words[1:])
            rest = words[1:]
            if words[0] == "whereis":
                rest = [word if word.startswith("-") else hex(number(word)) for word in rest]
            if target.symbol() is not None and words[0] != "snapshot" and not any(word.startswith("--exe") for word in rest):
                rest = ["--exe=" + path for path in target.programs()] + rest
            show([words[0], name] + rest)
        finally:
            shutil.rmtree(keep, ignore_errors=True)

def watch(name, words):
    if len(words) != 1:
        fail("watch needs one address")
    target = Target()
    if target.is_core:
        fail("a core dump does not run: nothing can be watched")
    address = number(words[0])
    answer = output(["whereis", "--json", "--limit", "1", name, hex(address)]).stdout.decode(errors="replace")
    found = [line for line in answer.splitlines() if line.startswith('{"type":"place"')]
    if not found:
        fail(answer.strip().replace("heapledger: ", ""))
    block = json.loads(found[0])["block"]
    if block is None:
        fail("%#x is in no live block" % address)
    start, size, actual = int(block["address"], 16), block["size"], block["actual"]
    if size is None or actual is None or actual <= size:
        fail("the block at %#x has no bytes behind the %s asked for: a write behind its end is a write into what is "
             "beside it, which cannot be told from a right one" % (start, size))
    width = 1
    # One debug register, aligned as the processor wants it.
    while width < 8 and (start + size) % (2 * width) == 0 and actual - size >= 2 * width:
        width *= 2
    guard = watchpoint(Guard, start + size, width)
    gdb.write("Watching %d byte(s) behind the %d asked for in the block at %#x (%s, number %d).\n"
              % (width, size, start, block["function"], block["number"]))
    ledger = target.ledger()
    record = ledger.record(block["number"])
    if record is None:
        return gdb.write("Its record is not found: delete the watchpoint when the block is freed.\n")
    record = watchpoint(Record, record, ledger.word, internal=True)
    record.silent = True
    record.text = "The block at %#x (%d bytes, number %d)" % (start, size, block["number"])
    record.guard, guard.record = guard, record

def watch_error(name, words):
    if len(words) > 1:
        fail("watch-error takes the number of an error, or nothing")
    if Target().is_core:
        fail("a core dump does not run: nothing can be watched")
    answer = output(["errors", "--json", "--limit", "0", name]).stdout.decode(errors="replace")
    if not answer.startswith('{"type":"header"'):
        fail(answer.strip().replace("heapledger: ", ""))
    errors = [json.loads(line) for line in answer.splitlines() if line.startswith('{"type":"error"')]
    if words:
        wanted = number(words[0])
        errors = [error for error in errors if error["row"] == wanted]
    if not errors:
        fail("there is no such error")
    error = errors[-1]
    if not error["bytes"] or not error["address"]:
        fail("error %d is of no bytes that somebody wrote or read" % error["row"])
    address, block, size = int(error["address"], 16), int(error["block"] or "0", 16), error["block_bytes"] or 0
    width = 1
    # As far as it is aligned, and no byte of the block itself: to write into that is right.
    while width < 8 and address % (2 * width) == 0 and (
            address + 2 * width <= block or address >= block + size or 2 * width <= error["bytes"]):
        width *= 2
    watchpoint(Place, address, width)
    gdb.write("Watching %d byte(s) at %#x, where error %d was found.\n" % (width, address, error["row"]))

def watchpoint(kind, address, width, **more):
    language = gdb.parameter("language")
    gdb.execute("set language c", to_string=True)
    try:
        name = {1: "char", 2: "short", 4: "int", 8: "long long"}[width]
        return kind("*(%s *) %#x" % (name, address), gdb.BP_WATCHPOINT, gdb.WP_WRITE, **more)
    finally:
        gdb.execute("set language " + language, to_string=True)

def library_frames():
    """The frame of ours that was called by the program, and the one that called it; None of both if there are none."""
    frame, ours = gdb.newest_frame(), None
    for _ in range(64):
        if frame is None:
            return None, None
        module = os.path.basename(gdb.solib_name(frame.pc()) or "")
        if module.startswith("libheapledger"):
            ours = frame
        elif ours:
            return ours, frame
        frame = frame.older()
    return None, None

class Place(gdb.Breakpoint):
    """Where an error was found."""

    def stop(self):
        # The guard itself writes what lies around blocks.
        module = os.path.basename(gdb.solib_name(gdb.newest_frame().pc()) or "")
        return not module.startswith("libheapledger")

class Guard(gdb.Breakpoint):
    """The bytes behind the end of a block."""

    def stop(self):
        # An allocator that reallocates a block may write into the end of what it is about to free.
        return library_frames()[0] is None

class Record(gdb.Breakpoint):
    """The record of a block that is watched: it changes when the block is freed."""

    ended = False

    def stop(self):
        self.ended = True
        return True

    def tell(self):
        by = ""
        ours, caller = library_frames()
        if caller is not None:
            place = caller.find_sal()
            where = " at %s:%d" % (os.path.basename(place.symtab.filename), place.line) if place.symtab else ""
            by = " by %s in %s%s" % (ours.name() or "free", caller.name() or "%#x" % caller.pc(), where)
            caller.select()
        gdb.write("%s was freed%s: the watch has ended.\n" % (self.text, by))

    def end(self):
        for one in (self.guard, self):
            if one.is_valid():
                one.delete()

def records():
    return [one for one in map(lambda one: getattr(one, "record", None), gdb.breakpoints()) if one and one.is_valid()]

def on_stop(event):
    for one in records():
        if one.ended:
            one.tell()
            one.end()

def on_exit(event):
    # Its addresses mean nothing in another run.
    for one in records():
        gdb.write("%s is gone with the program: the watch has ended.\n" % one.text)
        one.end()

def on_delete(breakpoint):
    record = getattr(breakpoint, "record", None)
    if record and record.is_valid():
        record.delete()

gdb.events.stop.connect(on_stop)
gdb.events.exited.connect(on_exit)
gdb.events.breakpoint_deleted.connect(on_delete)

Prefix()
end
end
