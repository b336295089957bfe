package httplimit

import "net/http"

// check asks the policies of the names for r, in order, up to the first that rejects it. It adds
// each policy that it asks to asked, for the caller to end, even if a limiter or another of the
// user's functions panics. Without wait it takes only permits that are available now.
func (t *terms) check(r *http.Request, names []string, wait bool, asked *[]ask) *Rejection {
	for _, name := range names {
		l := t.limit(name)
		if l == nil { // there is no global policy
			continue
		}
		if result, passed, err := t.asker.Ask(r.Context(), r, &l.asked, wait, asked); !passed {
			return newRejection(t, result, *asked, err)
		}
	}
	return nil
}
