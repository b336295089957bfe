module github.com/sluice-go/sluice/bench

go 1.26.0

require (
	github.com/alitto/pond/v2 v2.7.1
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/panjf2000/ants/v2 v2.12.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/sluice-go/sluice v0.0.0
	github.com/sluice-go/sluice/redislimit v0.0.0
	github.com/sluice-go/sluice/redislimit/goredis v0.0.0
	github.com/sluice-go/sluice/redislimit/rueidis v0.0.0
	github.com/throttled/throttled/v2 v2.15.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/sluice-go/sluice => ..

replace github.com/sluice-go/sluice/redislimit => ../redislimit

replace github.com/sluice-go/sluice/redislimit/goredis => ../redislimit/goredis

replace github.com/sluice-go/sluice/redislimit/rueidis => ../redislimit/rueidis

tool golang.org/x/perf/cmd/benchstat
