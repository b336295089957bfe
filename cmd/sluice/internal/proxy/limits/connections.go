package limits

import (
	"net"
	"net/http"

	"github.com/sluice-go/sluice/core"
)

// Request is what limits know a connection by.
func Request(c net.Conn) *http.Request { return &http.Request{RemoteAddr: c.RemoteAddr().String()} }

// Admit takes a permit of each limit on connections, or none. It returns the function that releases the permits, which is nil
// if nothing is limited, or the name of the limit that rejects the connection.
func (s *Set) Admit(c net.Conn) (release func(), rejectedBy string) {
	if s.admission == nil {
		return nil, ""
	}
	lease := s.admission.TryAcquire(Request(c), 1)
	if lease.Acquired() {
		return lease.Release, ""
	}
	name, _ := core.LimiterName.From(lease)
	for _, l := range s.Connections {
		if l.Name() == name {
			l.rejected.Add(1)
			return nil, name
		}
	}
	return nil, connections
}
