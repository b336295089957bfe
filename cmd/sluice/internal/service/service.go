// Package service is shared by the commands that serve until a signal ends them: start, reloads and shutdown, log messages, and the
// admin address.
package service

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Service is a program that serves.
type Service struct {
	Say   func(format string, args ...any) // prints a log message
	Files []string                         // reloaded when they change

	// Start listens and serves. The service ends with an error that it returns, or later sends to failed.
	Start func(ctx context.Context, failed chan<- error) (stop func(), err error)
	// Reload reads the files again. asked is true if SIGHUP asked for it, false if a file has changed. Calls run one at a time, in
	// a goroutine of their own, and shutdown does not wait for them.
	Reload func(asked bool)
	// Drain stops accepting work and returns when everything in flight has ended. A signal cuts that short.
	Drain func(signals <-chan os.Signal) error
}

// lookEvery is how often the files are looked at. That also finds changes that another machine has made, and links that lead
// elsewhere now, which a system does not notify of.
const lookEvery = 500 * time.Millisecond

// gcPercent makes the collector run half as often as by default, because the heap of a server such as the proxy is small and quickly
// doubles.
const gcPercent = 200

// Run serves until a signal comes.
func (s *Service) Run(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	signal.Ignore(syscall.SIGPIPE) // do not end because the reader of stdout or stderr has gone
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangups := make(chan os.Signal, 1) // several signals during a reload count as one
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	loaded := stateOf(s.Files)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 2)
	stop, err := s.Start(ctx, failed)
	if err != nil {
		return err
	}
	defer stop()
	s.notify(daemon.SdNotifyReady)
	reloads, stopReloads := context.WithCancel(ctx)
	defer stopReloads()
	go s.keepLoaded(reloads, hangups, loaded)
	select {
	case err := <-failed:
		return err
	case <-signals:
		stopReloads()
		s.notify(daemon.SdNotifyStopping)
		return s.Drain(signals)
	}
}

// keepLoaded reloads the files on SIGHUP, and when they have changed and then stayed the same for one look, because their writer
// may not be done. A reload may take seconds, and no signal waits for it.
func (s *Service) keepLoaded(ctx context.Context, hangups <-chan os.Signal, loaded state) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for last := loaded; ; {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			loaded = stateOf(s.Files)
			s.reload(ctx, true)
		case <-look.C:
			now := stateOf(s.Files)
			if now.same(last) && !now.same(loaded) {
				loaded = now
				s.reload(ctx, false)
			}
			last = now
		}
	}
}

func (s *Service) reload(ctx context.Context, asked bool) {
	s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	s.Reload(asked)
	if ctx.Err() == nil {
		s.notify(daemon.SdNotifyReady)
	}
}

// notify tells systemd of a state, if the service has Type=notify.
func (s *Service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.Say("cannot notify systemd: %v", err)
	}
}
