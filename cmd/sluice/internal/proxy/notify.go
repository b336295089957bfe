package proxy

import "github.com/coreos/go-systemd/v22/daemon"

// notify tells systemd of a state of the proxy, if the service has Type=notify.
func (p *proxy) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.say("systemd is not notified: %v", err)
	}
}
