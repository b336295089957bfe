module github.com/sluice-go/sluice/redislimit/bench

go 1.26.0

replace github.com/sluice-go/sluice => ../..

replace github.com/sluice-go/sluice/redislimit => ..

require (
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/sluice-go/sluice v0.0.0
	github.com/sluice-go/sluice/redislimit v0.0.0
	github.com/throttled/throttled/v2 v2.15.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
