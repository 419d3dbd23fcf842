# Writes OUT, a C file with the text that every generated kernel begins with: what it wants of
# device.h, then machine.h, blocks.h, move.h, lines.h and kernel.h, without their includes.
# cmake -DDIR=... -DOUT=... -P embed.cmake
cmake_minimum_required(VERSION 3.25)

foreach(name IN ITEMS machine blocks move lines kernel)
  file(READ ${DIR}/gpu/${name}.h ${name})
endforeach()
file(READ ${DIR}/device.h device)
string(FIND "${device}" "/* ---------------------------------------------------------------- programs as" begin)
string(FIND "${device}" "/**\n * A program laid out for a run" end)
if(begin LESS 0 OR end LESS begin)
  message(FATAL_ERROR "device.h has no part on programs that can be cut out")
endif()
math(EXPR length "${end} - ${begin}")
string(SUBSTRING "${device}" ${begin} ${length} device)
string(REPLACE "#include \"runtime/gpu/move.h\"\n" "${move}" blocks "${blocks}")
string(REPLACE "#include \"runtime/gpu/lines.h\"\n" "${lines}" blocks "${blocks}")
string(REPLACE "#include \"runtime/gpu/kernel.h\"\n" "${kernel}" blocks "${blocks}")
# the interpreter's alone, which generated kernels leave out
string(REPLACE "#include \"runtime/gpu/switches.h\"\n" "" blocks "${blocks}")
set(text "${machine}\n#define CCL_DEVICE_NONE 0xffffffffu\n\n${device}${blocks}")
if(text MATCHES "#include")
  message(FATAL_ERROR "a header that generated kernels want includes another one")
endif()

string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE ${OUT}.tmp "/* Made by embed.cmake of headers of runtime/. */
#include \"runtime/generate.h\"

const char ccl_i_kernel_prelude[] =
    \"${text}\";
")
file(RENAME ${OUT}.tmp ${OUT})
