package policy

import "github.com/sluice-go/sluice/core"

// Reason returns the reason phrase of a rejection for its client; false if there is none, or one of
// this library's packages' own, which are for the server's operators.
func Reason(lease core.Lease) (string, bool) {
	phrase, _ := core.ReasonPhrase.From(lease)
	switch phrase {
	case "", core.ReasonExhausted, core.ReasonQueueLimit, core.ReasonEvicted, core.ReasonDeadlineTooSoon,
		"partition limit reached", "capacity reached", "all workers busy": // partition, channel, worker
		return "", false
	}
	return phrase, true
}
