package main

// The measurements of grpclimit, and their lines of the table.

func grpcMeasurements() []measurement {
	return []measurement{{name: "grpc-unary", folder: "grpc", bench: "Interceptor"}}
}

func grpcGoals() []line {
	const work = "a unary gRPC call under a rate limit, without a connection"
	return []line{
		{work: work, measurement: "grpc-unary", ours: ours, rival: "none", goal: both(1000), more: true, allocs: 3},
		{work: work, measurement: "grpc-unary", ours: ours, rival: "failsafe", goal: both(1.00), allocs: 3},
		{work: work, measurement: "grpc-unary", ours: ours, rival: "middleware", allocs: anyAllocs},
	}
}
