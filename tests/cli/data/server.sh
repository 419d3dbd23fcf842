# Sourced: a PostgreSQL server of a test's own, on a socket in $dir, as an unprivileged user; no other is looked at.
# $url: its database. Ends with 77 where there is no server's program or ccllab has no libpq.
server_bin=
for server_try in /usr/lib/postgresql/*/bin; do
    [ -x "$server_try/initdb" ] && [ -x "$server_try/pg_ctl" ] && server_bin=$server_try
done
[ -n "$server_bin" ] || { echo "no PostgreSQL server here"; exit 77; }
server=$dir/pg
url="postgresql://lab:secret@/lab?host=$server"
server_as() { # a server does not run as root
    if [ "$(id -u)" = 0 ]; then setpriv --reuid nobody --regid nogroup --clear-groups -- "$@"; else "$@"; fi
}
server_start() { (cd / && server_as "$server_bin/pg_ctl" -w -t 120 -D "$server/data" -l "$server/log" start) >/dev/null; }
server_stop() { # fast, immediate
    (cd / && server_as "$server_bin/pg_ctl" -w -t 120 -m "$1" -D "$server/data" stop) >/dev/null
}
server_begin() {
    chmod 755 "$dir"
    mkdir "$server"
    [ "$(id -u)" != 0 ] || chown nobody:nogroup "$server"
    (cd / && server_as "$server_bin/initdb" -D "$server/data" -A trust -U lab --no-sync -E UTF8 --locale=C) >/dev/null
    printf "listen_addresses = ''\nunix_socket_directories = '%s'\nmax_connections = 300\nshared_buffers = 16MB\n" "$server" |
        server_as tee -a "$server/data/postgresql.conf" >/dev/null
    server_start
    (cd / && server_as "$server_bin/createdb" -h "$server" -U lab lab)
}
