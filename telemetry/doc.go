// Package telemetry tells OpenTelemetry what limiters do. Package
// [github.com/sluice-go/sluice/telemetry/prometheus] tells Prometheus, without OpenTelemetry.
//
//	limiter, err := core.NewTokenBucket(core.PerSecond(100, 20))
//	...
//	stop, err := telemetry.Observe(telemetry.Options{}, "api", limiter)
//
// [Observe] reads a limiter's [core.Statistics] whenever the metrics are collected, and costs
// an acquisition nothing. [Instrument] times each acquisition too, so use the limiter that it
// returns. [Partitions], [HTTP] and [Events] are for packages partition, httplimit and
// resilience. There is never a series for each key of a partition.
//
// # The metrics
//
// With their names in OpenTelemetry, and in Prometheus, where a dot of an attribute is an
// underscore too:
//
//	sluice.limiter.permits.limit           sluice_limiter_permits_limit                gauge
//	sluice.limiter.permits.available       sluice_limiter_permits_available            gauge
//	sluice.limiter.permits.queued          sluice_limiter_permits_queued               gauge
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
//	sluice.resilience.events               sluice_resilience_events_total              counter
//
// Those of limiters and partitions have the attribute sluice.limiter.name; leases and both
// durations have sluice.result too, granted or rejected. Those of HTTP have
// sluice.http.policy; requests and time_in_queue have sluice.http.result too. Those of events
// have event.name, event.severity, pipeline.name, pipeline.instance, strategy.name and
// operation.key. Histograms are in seconds, with buckets from 1 µs to 100 s.
package telemetry
