package hold

// The reasons of rejections by channel and worker without their limiter. They are for a program's operators: servers do
// not send them to clients.
const (
	ReasonCapacity = "capacity reached"
	ReasonBusy     = "all workers busy"
)
