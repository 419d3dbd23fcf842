# Writes OUT, a C file with the texts of this folder's headers, without includes of ours.
# cmake -DDIR=... -DOUT=... -P embed.cmake
cmake_minimum_required(VERSION 3.25)

set(all "/* Made by embed.cmake of headers of runtime/standalone/. */\n#include \"runtime/standalone/standalone.h\"\n")
foreach(name IN ITEMS block shape check kernel launch main types_own comm_own test_own types_nccl reach
        comm_nccl test_nccl)
  file(READ ${DIR}/standalone/${name}.h text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(APPEND all "\nconst char ccl_i_standalone_${name}[] =\n    \"${text}\";\n")
endforeach()
file(WRITE ${OUT}.tmp "${all}")
file(RENAME ${OUT}.tmp ${OUT})
