package limits

import (
	"net"
	"net/http"

	admit "github.com/sluice-go/sluice/internal/policy"
)

// Request is what limits know a connection by.
func Request(c net.Conn) *http.Request { return &http.Request{RemoteAddr: c.RemoteAddr().String()} }

// Admission is a request, or a connection, on its way through policies.
type Admission = admit.Admission[*http.Request, *Limit]

// admissionOf returns the limits of connections as policies.
func admissionOf(limits []*Limit) (*admit.Set[*http.Request, *Limit], error) {
	var o admit.Options[*http.Request, *Limit]
	for _, l := range limits {
		o.Policies = append(o.Policies, admit.Policy[*http.Request, *Limit]{
			Name: l.id.policy, Limiter: l.Limiter(), Rejected: admit.EndpointLimiter, Own: l,
		})
	}
	s := &admit.Set[*http.Request, *Limit]{Package: "proxy"}
	err := s.Update(o, nil)
	return s, err
}

// Admit has a connection take a permit of each limit of connections, all or nothing. It returns the name of the limit that
// refuses it, or how it leaves; nil: it need not.
func (s *Set) Admit(c net.Conn) (leave func(), refusedBy string) {
	if len(s.Connections) == 0 {
		return nil, ""
	}
	r := Request(c)
	adm := &Admission{Snapshot: s.admission.Load()}
	if rejection := adm.Admit(r.Context(), r, admit.Try); rejection != nil {
		l := rejection.Policy.Own
		l.refused.Add(1)
		return nil, l.id.policy
	}
	return adm.Release, ""
}
