#!/bin/sh
# The lab notebook on a PostgreSQL server: the same results as in a file; killed workers, tunings and servers lose
# nothing; a notebook is copied there. With CCL_NIGHTLY more of each. Skipped where no server's program is.
# Usage: cli_work_postgres.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1
dir=$(mktemp -d)
running=false
end() {
    ! $running || server_stop immediate || true
    rm -rf "$dir"
}
trap end EXIT
. "$2/tests/cli/data/work.sh"
. "$2/tests/cli/data/server.sh"
rc=0
"$ccllab" notebook list --notebook "$url" >"$dir/out" 2>"$dir/err" || rc=$?
! grep -q 'built without PostgreSQL' "$dir/err" || { cat "$dir/err"; exit 77; }
if [ $rc -ne 4 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || grep -q secret "$dir/err"; then say "no server: exit code $rc: $(cat "$dir/err")"; fi
# A machine without the library, which is loaded only now: all else works.
mkdir "$dir/without"
: >"$dir/without/libpq.so.5"
rc=0
LD_LIBRARY_PATH=$dir/without "$ccllab" notebook list --notebook "$url" 2>"$dir/err" || rc=$?
[ $rc -eq 4 ] && grep -q "needs PostgreSQL's client library, libpq.so.5" "$dir/err" || say "no library: exit code $rc: $(cat "$dir/err")"
LD_LIBRARY_PATH=$dir/without "$ccllab" doctor | grep -q '^libpq  *left out' || say "doctor: libpq is not left out where it is not"
server_begin
running=true
few=3 much=4
[ -z "${CCL_NIGHTLY:-}" ] || few=100 much=50

# An old notebook moves there; what a tuning finds is the same, and so are its rows.
want 80
"$ccllab" tune $space --budget 80runs --notebook "$dir/old.db" >/dev/null
"$ccllab" notebook list --notebook "$url" 2>"$dir/err" && say "an empty database is read"
grep -q 'an empty database, no lab notebook yet' "$dir/err" || say "an empty database: $(cat "$dir/err")"
"$ccllab" notebook copy "$dir/old.db" --notebook "$url"
"$ccllab" notebook copy "$dir/old.db" --notebook "$url" -v 2>&1 | grep -q '0 points and 0 inputs are new' || say "copied twice"
"$ccllab" notebook copy "$url" --notebook "$dir/back.db"
for what in list export "query 'SELECT cluster, size_bytes, min(time_s) AS t, max(busbw_GBps) AS busbw_GBps FROM run GROUP BY cluster, size_bytes ORDER BY 2'" "diff 1 2" "show 1"; do
    for to in "$dir/old.db" "$url" "$dir/back.db"; do
        eval "\"\$ccllab\" notebook $what --csv --notebook \"\$to\"" >"$dir/rows" || say "$what of $to: exit code $?"
        [ "$to" != "$dir/old.db" ] || cp "$dir/rows" "$dir/rows.want"
        cmp -s "$dir/rows" "$dir/rows.want" || say "$what of $to: $(diff "$dir/rows.want" "$dir/rows" | head -5)"
    done
done
"$ccllab" tune $space --budget 80runs --notebook "$url" --json >"$dir/again"
same "$dir/again" "copied"
[ "$(grep -c '"resumed": false' "$dir/again")" -eq 0 ] || say "copied: a point was run again"
"$ccllab" compare -t heteccl-h20-4+8 -c allgather --sizes 1M --with ring --notebook "$url" >/dev/null || say "compare: exit code $?"

# What a query may do.
refused() { # words, SQL
    rc=0
    "$ccllab" notebook query "$2" --notebook "$url" >"$dir/out" 2>"$dir/err" || rc=$?
    if [ $rc -ne 2 ] || [ "$(wc -l <"$dir/err")" -ne 1 ] || ! grep -qF -e "$1" "$dir/err"; then
        say "$2: exit code $rc: $(cat "$dir/err")"
    fi
}
refused 'does not read' 'DELETE FROM point'
refused 'does not read' 'WITH x AS (DELETE FROM point RETURNING id) SELECT * FROM x'
refused 'does not read' "COPY point TO PROGRAM 'cat >/dev/null'"
refused 'multiple commands' 'SELECT 1; DELETE FROM point'
refused 'does not exist' 'SELECT nonsense FROM point'
refused 'nothing is asked' ' ; '
rc=0
timeout -s INT 1 "$ccllab" notebook query 'SELECT pg_sleep(600)' --notebook "$url" >/dev/null 2>&1 || rc=$?
[ $rc -eq 124 ] || say "a long query and Ctrl-C: exit code $rc"

forget_file "$url"
with_workers "$url" $few 80
forget_file "$url"
# Sanitized, the same of a file (cli.work.queue) will do; the statements that the server is asked are the plain test's.
if [ -z "${CCL_SANITIZED:-}" ] || [ -n "${CCL_NIGHTLY:-}" ]; then
    two_submitters "$url" 80
    forget_file "$url"
    launched "$url"
    forget_file "$url"
    stopped "$url"
    forget_file "$url"
fi

# A process that stops within a transaction loses it, and makes it again when it goes on.
sql() { (cd / && server_as "$server_bin/psql" -Atqh "$server" -U lab lab -c "$1"); }
sessions() { # number, condition
    tries=0
    until [ "$(sql "SELECT count(*) FROM pg_stat_activity WHERE $2")" = "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { say "$1 sessions are not there: $2"; return 0; }
        sleep 0.1
    done
}
PGAPPNAME=locks sql 'BEGIN; LOCK TABLE point; SELECT pg_sleep(600)' >/dev/null 2>&1 &
locks=$!
sessions 1 "application_name = 'locks' AND wait_event = 'PgSleep'"
PGAPPNAME=stops "$ccllab" notebook copy "$dir/old.db" --notebook "$url" 2>"$dir/err" &
copies=$!
sessions 1 "application_name = 'stops' AND wait_event_type = 'Lock'"
kill -STOP $copies
sql "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'locks'" >/dev/null
wait $locks || true
sessions 0 "application_name = 'stops'"
kill -CONT $copies
wait $copies || say "stopped within a transaction: exit code $?: $(cat "$dir/err")"
[ "$(ask "$url" 'SELECT count(*) FROM point')" = "$(ask "$dir/old.db" 'SELECT count(*) FROM point')" ] || say "copied in part"
forget_file "$url"

# The server is restarted, in order, and as after a crash.
restart() { # kill
    case $(($1 % 3)) in
    0) server_stop fast && server_start ;;
    1) [ $((($1 / 3) % 2)) -eq 0 ] || { server_stop immediate && server_start; } ;;
    esac
}
strike=restart
forget=forget_file
kills "$url" $much
# Another program's database.
forget_file "$url"
(cd / && server_as "$server_bin/createdb" -h "$server" -U lab other &&
    server_as "$server_bin/psql" -qh "$server" -U lab other -c 'CREATE TABLE task (x int)')
rc=0
"$ccllab" notebook list --notebook "postgresql://lab:secret@/other?host=$server" >"$dir/out" 2>"$dir/err" || rc=$?
if [ $rc -ne 2 ] || ! grep -q 'a database of another program' "$dir/err" || grep -q secret "$dir/err"; then say "another's: $rc, $(cat "$dir/err")"; fi
exit $bad
