# Sourced: what must hold of processes that share a lab notebook, in a file or on a server alike. $ccllab, $dir; each
# scenario takes the notebook, which is empty or has other points in it.
bad=0
say() { echo "$*"; bad=1; }
space="-t heteccl-h20-4+8 -c allgather --sizes 1M,16M -k with=ring,hm,direct -k chunks=auto,1:4"
# All but times of synthesis and evaluation, the front that is drawn against them, and what was resumed.
settled() {
    sed -E 's/"(synth_s|eval_s|lower_s|simulate_s|notebook_s)": [^,}]*/"\1": 0/g; /^  "synthesis": /,/^  \]/d
        s/"resumed": true/"resumed": false/; s/"schedules": .*//' "$1"
}
ask() { "$ccllab" notebook query "$2" --csv --notebook "$1" 2>/dev/null | tail -1; }
draw() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }
same() { # file, what
    settled "$1" >"$1.settled"
    cmp -s "$1.settled" "$dir/want" || say "$2: another result: $(head -c 300 "$1")"
}
# Of logs of -v: every task that was asked for was done once.
once() { # what, logs...
    what=$1
    shift
    sums=$(sed -n 's/.*asked for \([0-9]*\) tasks, did \([0-9]*\)$/\1 \2/p' "$@" | awk '{ a += $1; d += $2 } END { print a + 0, d + 0 }')
    [ "${sums% *}" -gt 0 ] || say "$what: nothing was queued"
    [ "${sums% *}" = "${sums#* }" ] || say "$what: tasks asked for and done: $sums"
}
want() { # runs; each number once
    [ "${wanted:-}" != "$1" ] || return 0
    wanted=$1
    "$ccllab" tune $space --budget "$1runs" --notebook none --json >"$dir/one"
    [ "$(grep -c '"settings"' "$dir/one")" -ge "$1" ] || say "too few runs to compare"
    settled "$dir/one" >"$dir/want"
}

# Until they work, or have ended because they found nothing to do on a busy machine.
present() { # notebook, workers, process
    tries=0
    until [ "$(ask "$1" "SELECT count(*) FROM member WHERE role = 'works' AND ended = 0")" = "$2" ]; do
        kill -0 "$3" 2>/dev/null || return 0
        tries=$((tries + 1))
        [ $tries -lt 1000 ] || { say "$2 workers do not appear"; return 0; }
        sleep 0.1
    done
}

# Workers that come, wait and end: the result of one process; what they did is in the notebook.
with_workers() { # notebook, workers, runs
    want "$3"
    "$ccllab" work --notebook "$1" -j "$2" -v --idle 3s 2>"$dir/work.log" &
    worker=$!
    "$ccllab" tune $space --budget "$3runs" --notebook "$1" --json -v >"$dir/many" 2>"$dir/tune.log" || say "workers: exit code $?"
    same "$dir/many" "$2 workers"
    wait $worker || say "workers: exit code $?: $(cat "$dir/work.log")"
    "$ccllab" tune $space --budget "$3runs" --notebook "$1" --json >"$dir/again"
    [ "$(grep -c '"resumed": false' "$dir/again")" -eq 0 ] || say "workers: not all was written down"
    [ ! -s "$dir/tune.log" ] || once "workers" "$dir/work.log" "$dir/tune.log"
}

# Two tunings of one space at once, and workers: each has the result, nothing is done twice.
two_submitters() { # notebook, runs
    want "$2"
    "$ccllab" work --notebook "$1" -j 2 -v --idle 3s 2>"$dir/work.log" &
    worker=$!
    present "$1" 2 $worker
    "$ccllab" tune $space --budget "$2runs" --notebook "$1" --json -v >"$dir/a" 2>"$dir/a.log" &
    first=$!
    "$ccllab" tune $space --budget "$2runs" --notebook "$1" --json -v >"$dir/b" 2>"$dir/b.log" || say "two: exit code $?"
    wait $first || say "two: exit code $?"
    wait $worker || say "two: a worker's exit code $?"
    same "$dir/a" "two tunings, the first"
    same "$dir/b" "two tunings, the second"
    once "two tunings" "$dir/work.log" "$dir/a.log" "$dir/b.log"
}

# Processes of one launch find each other by the notebook; the others end with process 0.
launched() { # notebook
    want 80
    pids=
    for rank in 1 2 0; do
        PMIX_NAMESPACE=test-$$ OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 "$ccllab" tune $space --budget 80runs \
            --notebook "$1" --json >"$dir/launched.$rank" 2>"$dir/launched.err.$rank" &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid" || say "launched: exit code $?: $(cat "$dir"/launched.err.*)"
    done
    same "$dir/launched.0" "3 processes of a launch"
    [ ! -s "$dir/launched.1" ] || say "launched: process 1 prints, too"
}

# A worker that is stopped keeps nothing for longer than its lease.
stopped() { # notebook
    want 80
    "$ccllab" work --notebook "$1" -j 1 --lease 1s 2>/dev/null &
    worker=$!
    present "$1" 1 $worker
    "$ccllab" tune $space --budget 80runs --notebook "$1" --json >"$dir/many" &
    tuning=$!
    sleep "0.$(draw 4)"
    kill -STOP $worker
    wait $tuning || say "stopped: exit code $?"
    same "$dir/many" "a worker was stopped"
    kill -KILL $worker
    wait $worker 2>/dev/null || true
}

# Workers, the tuning itself and whatever else `strike` does, at random moments: nothing that was finished is lost.
kills() { # notebook, kills
    want 300
    killed=0 had=0 pids= tuning= rounds=0
    while [ $killed -lt "$2" ]; do
        while [ "$(echo $pids | wc -w)" -lt 2 ]; do
            "$ccllab" work --notebook "$1" -j 1 --lease 5s 2>>"$dir/work.log" &
            pids="$pids $!"
        done
        if [ -z "$tuning" ] || ! kill -0 "$tuning" 2>/dev/null; then
            if [ -n "$tuning" ]; then
                wait "$tuning" && same "$dir/tuned" "after $killed kills"
                rounds=$((rounds + 1))
                [ -z "${forget:-}" ] || $forget "$1"
                had=0
            fi
            "$ccllab" tune $space --budget 300runs --notebook "$1" --lease 5s --json >"$dir/tuned" 2>"$dir/tune.log" &
            tuning=$!
        fi
        sleep "0.$(draw 5)$(draw 10)"
        victim=$(draw 4)
        if [ "$victim" = 0 ]; then
            kill -KILL "$tuning" 2>/dev/null || continue
            wait "$tuning" 2>/dev/null || true
            tuning=
        else
            set -- "$1" "$2" $pids
            pid=$(eval "echo \${$((3 + victim % 2))}")
            kill -KILL "$pid" 2>/dev/null || { say "a worker ended by itself: $(tail -3 "$dir/work.log")"; break; }
            wait "$pid" 2>/dev/null || true
            pids=$(echo " $pids " | sed "s/ $pid / /")
        fi
        killed=$((killed + 1))
        has=$(ask "$1" 'SELECT count(*) FROM point')
        [ "${has:-0}" -ge "$had" ] || say "kill $killed: $had points were there, now ${has:-none}"
        had=${has:-0}
        [ -z "${strike:-}" ] || $strike $killed
    done
    if [ -n "$tuning" ]; then
        wait "$tuning" || say "kills: the last tuning's exit code $?: $(cat "$dir/tune.log")"
    else
        "$ccllab" tune $space --budget 300runs --notebook "$1" --json >"$dir/tuned"
    fi
    same "$dir/tuned" "after all kills"
    kill -TERM $pids
    for pid in $pids; do wait "$pid" || [ $? -eq 143 ] || [ $? -eq 130 ] || say "a worker's exit code at the end"; done
}

forget_file() { # all points but the tables
    "$ccllab" notebook gc --all --notebook "$1" >/dev/null
}
