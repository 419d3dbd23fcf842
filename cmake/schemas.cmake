# cmake -DPROGRAM=ccllab -DFOLDER=out -P schemas.cmake
# A JSON Schema per kind of result, "ccllab/NAME/1" as NAME-1.json, as the program writes them.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
execute_process(COMMAND ${PROGRAM} schema --json OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
string(JSON n LENGTH "${list}" schemas)
math(EXPR last "${n} - 1")
foreach(i RANGE ${last})
  string(JSON name GET "${list}" schemas ${i} name)
  execute_process(COMMAND ${PROGRAM} schema ${name} --json OUTPUT_FILE ${FOLDER}/${name}-1.json
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
