package proxy

import (
	"bytes"
	"os"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/sluice-go/sluice/cmd/sluice/internal/cli"
)

// reload reads the file again, if it has changed or asked is true. If anything is wrong, it prints what, and nothing
// changes.
func (p *proxy) reload(asked bool) {
	if !asked {
		text, err := os.ReadFile(p.file)
		p.mu.Lock()
		same := err == nil && bytes.Equal(text, p.text)
		p.mu.Unlock()
		if same || os.IsNotExist(err) { // a new one is on its way, or the next SIGHUP reports that there is none
			return
		}
	}
	p.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	defer p.notify(daemon.SdNotifyReady)
	if err := p.load(); err != nil {
		cli.SayAll(p.say, err)
		p.say("nothing has changed: the limits are those of before")
		return
	}
	p.say("the limits are those of %s now", p.file)
}
