#!/bin/bash
# What `make run` starts: `krait serve` in the foreground, and behind the lines it prints those that a client is configured with.
#     serve.sh build/krait [options of krait serve]
# The server takes this process's place, so signals and the exit status are its own. The lines pass through a child that ends with
# the server's output.
set -euo pipefail
krait=$1
shift

tell_clients() {
    local line url=
    trap '' INT TERM HUP # a terminal's Ctrl-C is for the server; its last lines are still wanted
    while IFS= read -r line; do
        printf '%s\n' "$line"
        case $line in
        "krait is ready: "*)
            url=${line#krait is ready: }
            url=${url%/}
            ;;
        "  try "*)
            printf '  configure       base URL  %s/api/v1\n' "$url"
            printf '    a client      OpenAPI   %s/openapi.json\n' "$url"
            if [[ $line == *Authorization* ]]; then
                printf '                  key       header "Authorization: Bearer KEY" or "X-API-Key: KEY"\n'
            else
                printf '                  key       none\n'
            fi
            printf '  stop            Ctrl-C\n'
            ;;
        esac
    done
}

exec "$krait" serve "$@" > >(tell_clients)
