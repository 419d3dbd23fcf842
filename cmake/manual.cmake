# cmake -DPROGRAM=ccllab -DFOLDER=out -P manual.cmake
# Manual pages and the completion of shells, as the program writes them from its tables.
function(ask file)
  execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_FILE ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/man1)
foreach(shell bash zsh fish)
  ask(${FOLDER}/completion.${shell} --completion ${shell})
endforeach()
ask(${FOLDER}/man1/ccllab.1 --man)
execute_process(COMMAND ${PROGRAM} help --commands OUTPUT_VARIABLE commands
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" commands "${commands}")
foreach(command IN LISTS commands)
  string(REPLACE " " "-" name "${command}")
  separate_arguments(words UNIX_COMMAND "${command}")
  ask(${FOLDER}/man1/ccllab-${name}.1 --man ${words})
endforeach()
