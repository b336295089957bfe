// Package rlslimit is a rate limit service for Envoy and compatible gateways. It implements
// envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit with the configuration files of envoyproxy/ratelimit, and the
// limiters of this library in place of counters in Redis.
//
//	config, err := rlslimit.Load("limits.yaml")
//	service, err := rlslimit.New(rlslimit.Options{Config: config})
//	server := grpc.NewServer()
//	ratelimit.RegisterRateLimitServiceServer(server, service)
//
// The command sluice serve is such a server, with everything around it; docs/serve.md explains it and the files.
//
// # Files
//
// A file has one domain. A descriptor matches the entry of a request that has its key and, if the descriptor has one, its
// value. A * in the value stands for any text. If several descriptors match, the exact value wins, then the first wildcard in
// the order of the file, then the descriptor without a value. Each value that a wildcard, or a descriptor without a value,
// matches has a limiter of its own, unless share_threshold is set for the wildcard.
//
//	domain: shop
//	descriptors:
//	  - key: remote_address
//	    rate_limit: {unit: minute, requests_per_unit: 100}
//	  - key: plan
//	    value: free
//	    descriptors:
//	      - key: user
//	        limit: 10/min burst 3
//
// # Decisions
//
// A request is decided all or nothing. A descriptor may have several limits, separated by commas in limit, which all apply: a request
// takes its hits from all of them, or from none. Its status describes the limit that decides: the one that rejects or, if none
// does, the one with the fewest hits left; of several such limits, the one that is reset last.
//
// A rule in shadow_mode or quota_mode takes part, but never rejects. Memory is bounded: a limit has limiters for as many values as
// keys of its domain allows, and other values share the limiters of 1,024 groups.
//
// With a store, processes share the limits. The descriptors of a request are asked about concurrently, within one Timeout. If the
// store does not decide in time, fail-open of the domain does; the Logger reports that, and why.
//
// # Inside
//
// Load makes a tree of nodes, and a ruleConfig for each limit of a node. Update makes a state, which maps each ruleConfig to
// a rule and keeps the rules that the previous state had. A rule has a partition.Keyed with a limiter per key, whose groups
// have the limiters of the keys for which there is no room. If the limit of a rule changes, Update refreshes the Keyed.
// ShouldRateLimit reads one state and makes a decision, which has a visit per limit of each descriptor: it takes the hits of each,
// and gives them back if one is over its limit.
package rlslimit
