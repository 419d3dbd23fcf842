# cmake -DROOT=folder -DLIST=file -DIN=template -DOUT=file -P source_id.cmake
# See CclSourceId.cmake; LIST has the files' paths, with semicolons between them.
cmake_minimum_required(VERSION 3.25)

file(READ ${LIST} files)
string(STRIP "${files}" files)
set(text "")
foreach(file IN LISTS files)
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(SHA256 ${file} hash)
  string(APPEND text "${name} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 12 SOURCE_ID)
configure_file(${IN} ${OUT}.tmp @ONLY)
file(RENAME ${OUT}.tmp ${OUT}) # also where it says what it said: its time tells that it is up to date
