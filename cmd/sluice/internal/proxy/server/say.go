package server

import "time"

// sayOften prints a line about something that may happen at each request, once a second at most.
func (p *Proxy) sayOften(format string, args ...any) {
	if _, ok := p.quiet.Allow(time.Second); ok {
		p.say(format, args...)
	}
}
