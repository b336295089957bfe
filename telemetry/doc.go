// Package telemetry reports what limiters do as OpenTelemetry metrics. Package
// [github.com/sluice-go/sluice/telemetry/prometheus] does so for Prometheus, without
// OpenTelemetry.
//
//	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20))
//	...
//	stop, err := telemetry.Observe(telemetry.Options{}, "api", limiter)
//
// [Observe] reads a limiter's [core.Statistics] when the metrics are collected and adds nothing
// to the cost of an acquisition. [Instrument] returns a view of the limiter that also times each
// acquisition that goes through it. [Partitions], [HTTP], [GRPC], [Resilience] and [Adaptive] are for packages
// partition, httplimit, grpclimit, resilience and adaptive. No metric has a series per key of a partition.
//
// # The metrics
//
// These are their names in OpenTelemetry and in Prometheus:
//
//	sluice.limiter.permits.limit           sluice_limiter_permits_limit                gauge
//	sluice.limiter.permits.available       sluice_limiter_permits_available            gauge
//	sluice.limiter.permits.queued          sluice_limiter_permits_queued               gauge
//	sluice.limiter.permits.settled         sluice_limiter_permits_settled_total        counter
//	sluice.limiter.leases                  sluice_limiter_leases_total                 counter
//	sluice.limiter.queue.duration          sluice_limiter_queue_duration_seconds       histogram
//	sluice.limiter.lease.duration          sluice_limiter_lease_duration_seconds       histogram
//	sluice.partition.live                  sluice_partition_live                       gauge
//	sluice.partition.created               sluice_partition_created_total              counter
//	sluice.partition.dropped               sluice_partition_dropped_total              counter
//	sluice.partition.overflowed            sluice_partition_overflowed_total           counter
//	sluice.http.active_request_leases      sluice_http_active_request_leases           up-down counter, gauge
//	sluice.http.queued_requests            sluice_http_queued_requests                 up-down counter, gauge
//	sluice.http.request.time_in_queue      sluice_http_request_time_in_queue_seconds   histogram
//	sluice.http.request_lease.duration     sluice_http_request_lease_duration_seconds  histogram
//	sluice.http.requests                   sluice_http_requests_total                  counter
//	sluice.rpc.active_call_leases          sluice_rpc_active_call_leases               up-down counter, gauge
//	sluice.rpc.queued_calls                sluice_rpc_queued_calls                     up-down counter, gauge
//	sluice.rpc.call.time_in_queue          sluice_rpc_call_time_in_queue_seconds       histogram
//	sluice.rpc.call_lease.duration         sluice_rpc_call_lease_duration_seconds      histogram
//	sluice.rpc.calls                       sluice_rpc_calls_total                      counter
//	sluice.resilience.events               sluice_resilience_events_total              counter
//	sluice.adaptive.changes                sluice_adaptive_changes_total               counter
//	sluice.adaptive.latency                sluice_adaptive_latency_seconds             gauge
//	sluice.adaptive.baseline               sluice_adaptive_baseline_seconds            gauge
//
// Histograms are in seconds, with buckets from 1 µs to 100 s. In Prometheus, a dot in the name
// of an attribute becomes an underscore. The attributes are:
//
//	sluice.limiter.*, sluice.partition.*  sluice.limiter.name
//	sluice.limiter.leases                 and sluice.result: granted, rejected
//	sluice.limiter.queue.duration         and sluice.result: granted, rejected; and if the
//	                                      order is fair-share, sluice.priority: -100 to 100
//	sluice.limiter.lease.duration         and sluice.result: granted, shadowed
//	sluice.limiter.permits.settled        and sluice.direction: up, down
//	sluice.http.*                         sluice.http.policy
//	sluice.http.requests                  and sluice.http.result, the text of an [httplimit.Result]
//	sluice.http.request.time_in_queue     and sluice.http.result
//	sluice.rpc.*                          sluice.rpc.policy, and rpc.system.name: grpc
//	sluice.rpc.calls                      and sluice.rpc.result, the text of an [httplimit.Result]
//	sluice.rpc.call.time_in_queue         and sluice.rpc.result
//	sluice.resilience.events              event.name, event.severity, strategy.name
//	sluice.adaptive.*                     sluice.limiter.name
//	sluice.adaptive.changes               and sluice.adaptive.reason, the text of an [adaptive.Change].Reason
//
// # Many limiters
//
// Each observed limiter has a series of its own. By default, the OpenTelemetry SDK keeps 2,000 attribute
// sets per instrument and collects all further ones in one, with the attribute otel.metric.overflow: the
// counters of further limiters are added up there, and their gauges are lost. Observe a partition's limiters
// with [Partitions], or raise the limit with the SDK's WithCardinalityLimit.
//
// An adaptive limiter has nine series more: two gauges, and a counter for each of the seven reasons of package adaptive. An
// Algorithm of your own has a series for each reason that its Explain returns, so do not put numbers into a reason.
package telemetry

// Inside: Observe reads Statistics at each collection. It adds the differences between totals to an ordinary
// counter, so a counter never falls when limiters come and go under one name. Instrument is a view whose
// leases join the limiter's lease with a span, which ends first and records the time.
