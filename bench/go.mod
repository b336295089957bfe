module github.com/sluice-go/sluice/bench

go 1.26.0

require (
	github.com/Jeffail/tunny v0.1.4
	github.com/alitto/pond/v2 v2.7.1
	github.com/didip/tollbooth/v7 v7.0.2
	github.com/djherbis/buffer v1.2.1
	github.com/djherbis/nio/v3 v3.0.1
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/gammazero/workerpool v1.3.0
	github.com/go-chi/httprate v0.16.1
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/grpc-ecosystem/go-grpc-middleware/v2 v2.3.4
	github.com/juju/ratelimit v1.0.2
	github.com/panjf2000/ants/v2 v2.12.1
	github.com/puzpuzpuz/xsync/v4 v4.5.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/sethvargo/go-limiter v0.7.1
	github.com/sluice-go/sluice v0.0.0
	github.com/sluice-go/sluice/grpclimit v0.0.0
	github.com/sluice-go/sluice/redislimit v0.0.0
	github.com/sluice-go/sluice/redislimit/goredis v0.0.0
	github.com/sluice-go/sluice/redislimit/rueidis v0.0.0
	github.com/sourcegraph/conc v0.3.0
	github.com/throttled/throttled/v2 v2.15.0
	github.com/ulule/limiter/v3 v3.11.2
	go.uber.org/goleak v1.3.0
	go.uber.org/ratelimit v0.3.1
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
	google.golang.org/grpc v1.85.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/gammazero/deque v1.2.2 // indirect
	github.com/go-pkgz/expirable-cache/v3 v3.0.0 // indirect
	github.com/hashicorp/golang-lru v0.5.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/kr/text v0.2.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/multierr v1.9.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/sluice-go/sluice => ..

replace github.com/sluice-go/sluice/grpclimit => ../grpclimit

replace github.com/sluice-go/sluice/redislimit => ../redislimit

replace github.com/sluice-go/sluice/redislimit/goredis => ../redislimit/goredis

replace github.com/sluice-go/sluice/redislimit/rueidis => ../redislimit/rueidis

tool golang.org/x/perf/cmd/benchstat
