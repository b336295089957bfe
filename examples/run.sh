#!/usr/bin/env bash
# Runs each example program of every module once, quickly, and checks its exit code and some of its output.
#
#   examples/run.sh            all of them
#   examples/run.sh fetch      one
#
# Each program has a function here, example_NAME; a program without one is a failure.
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# exits CODE COMMAND... runs the command, its output going to $work/out and $work/err.
exits() {
	local want=$1 got=0
	shift
	timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null || got=$?
	[ "$got" -eq "$want" ] || fail "${*##*/} exited with $got, want $want"
}

# says PATTERN: the last command's output has a line that matches.
says() { cat "$work/out" "$work/err" | grep -Eq -- "$1" || fail "no line of the output matches: $1"; }

fail() {
	printf '%s\n' "$1" >&2
	sed 's/^/    | /' "$work/out" "$work/err" >&2
	return 1
}

# file NAME BYTES makes a file that does not compress or repeat, and prints its name.
file() {
	head -c "$2" /dev/urandom >"$work/$1"
	printf '%s\n' "$work/$1"
}

example_throttle() {
	local in
	in=$(file in 2000000)
	mkdir "$work/copies"
	exits 0 "$1" -rate 8MiB/s -o "$work/copies" "$in"
	cmp "$in" "$work/copies/in"
	exits 0 "$1" -rate 8MiB/s -z -o "$work/copies" "$in"
	gzip -dc "$work/copies/in.gz" | cmp "$in" -
	exits 2 "$1" -rate fast -o "$work/copies" "$in"
	says 'fast'
}

example_channel() {
	exits 0 "$1"
	says '^[1-9][0-9]* lines, '
	says '^queued at most [0-9]+ of [0-9]+ bytes'
}

example_fetch() {
	exits 0 "$1" -pages 30 -rate 100/s -n 4
	says '^30 pages, [0-9]+ bytes, 0 failed'
	says '^at most [1-4] in flight \(of 4\)'
	exits 1 "$1" -url http://127.0.0.1:1/
	says 'does the server run'
	exits 2 "$1" -n 0
	says '-n = 0, want at least 1'
}

example_tenants() {
	exits 0 "$1" -time 500ms
	says '^oldest-first +greedy +[0-9]+ '
	says '^fair-share +other 4 +[0-9]+ '
	exits 2 "$1" -slots 0
}

example_server() {
	exits 0 "$1" -selftest
	says '^GET /api/time, 20 times +200: 1[0-9], 429: [0-9]'
	says '^POST /login, wrong +401: 3, 429: 1'
	says 'data: 1 data: 2'
	exits 2 "$1" -trusted nowhere
	says 'nowhere'
}

example_loadtest() {
	exits 0 "$1" -short
	says '^none +5\.0 '
	says '^newest first.* +5\.0 '
	exits 2 "$1" -slots 0
	says 'want more than 0'
}

example_telemetry() {
	exits 0 "$1" -took 2s
	says '^sluice_limiter_leases_total\{sluice_limiter_name="database",sluice_result="granted"\} [1-9]'
	says '^sluice_limiter_queue_duration_seconds_count\{.*\} [1-9]'
	says '^sluice_http_requests_total\{sluice_http_policy="api",sluice_http_result="acquired"\} [1-9]'
	says '^sluice_http_requests_total\{sluice_http_policy="api",sluice_http_result="endpoint_limiter"\} [1-9]'
	says '^sluice_partition_live\{sluice_limiter_name="clients"\} 8$'
	exits 2 "$1" -clients 0
	says '-clients = 0, want at least 1'
}

example_fleet() {
	exits 0 "$1" -seconds 3
	says '^together: [1-9][0-9]* permits'
	exits 2 "$1" -seconds 0
	says '-seconds = 0, want 1 to 3600'
}

example_llm() {
	exits 0 "$1" -for 3s
	says '^100 clients of 10 accounts for 3s: [1-9][0-9]* requests let through, '
	says '^[1-9][0-9]* tokens at most '
	exits 2 "$1" -for 2m
	says 'at most a minute'
}

example_grpcserver() {
	exits 0 "$1" -selftest
	says '^30 unary calls: 2[0-9] OK, [1-9][0-9]* ResourceExhausted$'
	says '^500 kB in [0-9.]+ s$'
	exits 2 "$1" -rate 0
	says 'Rate = 0, want a finite rate'
}

example_grpcclient() {
	exits 0 "$1" -n 10
	says '^rude +10 calls with [0-9]+ attempts, [1-9][0-9]* of them rejected'
	says '^polite +10 calls with [0-9]+ attempts, [1-9][0-9]* of them rejected'
	exits 2 "$1" -n 0
	says 'want at least 1'
}

# programs prints the directory of each example program, of all modules.
programs() {
	local module
	for module in $(../.ci/modules -code); do
		(cd "../$module" && go list -f '{{if eq .Name "main"}}{{.Dir}}{{end}}' ./...) | grep '/examples/' || true
	done
}

# run NAME DIR builds and runs one program.
run() {
	if ! declare -F "example_$1" >/dev/null; then
		echo "$2 is a program, but run.sh has no example_$1 that runs it" >&2
		return 1
	fi
	(cd "$2" && go build -o "$work/bin/$1" .)
	exits 0 "$work/bin/$1" -h
	says '.'
	"example_$1" "$work/bin/$1"
}

# name DIR: examples/throttle is throttle, and examples/with/fleet is fleet.
name() { basename "$1"; }

root=$(cd .. && pwd)
mkdir "$work/bin"
ran=0 failed=()
for dir in $(programs); do
	name=$(name "$dir")
	[ $# -eq 0 ] || [ "$name" = "$1" ] || continue
	ran=$((ran + 1))
	start=$SECONDS
	# In a process of its own, since set -e does not hold in a condition.
	(run "$name" "$dir") &
	if wait $!; then
		echo "ok   $name ($((SECONDS - start)) s)"
	else
		echo "FAIL $name" >&2
		failed+=("$name")
	fi
done

if [ "$ran" -eq 0 ]; then
	echo "no example ran" >&2
	exit 1
fi
echo "$ran examples, ${#failed[@]} failed"
[ "${#failed[@]}" -eq 0 ]
