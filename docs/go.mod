module github.com/sluice-go/sluice/docs

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/go-chi/httprate v0.16.1
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/sluice-go/sluice v0.0.0
	github.com/sluice-go/sluice/redislimit v0.0.0
	github.com/sluice-go/sluice/redislimit/goredis v0.0.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace github.com/sluice-go/sluice => ..

replace github.com/sluice-go/sluice/redislimit => ../redislimit

replace github.com/sluice-go/sluice/redislimit/goredis => ../redislimit/goredis

replace github.com/sluice-go/sluice/redislimit/rueidis => ../redislimit/rueidis
