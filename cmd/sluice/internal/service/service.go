// Package service is shared by the commands that serve until a signal ends them: start, reloads and shutdown, log messages, and the
// admin address.
package service

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

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
	// Drain stops accepting work and returns when everything in flight has ended. A signal other than SIGHUP cuts that short.
	Drain func(signals <-chan os.Signal) error

	stopping atomic.Bool
}

// Run serves until a signal comes.
func (s *Service) Run(ctx context.Context) error {
	drop := holdBallast()
	defer drop()
	signal.Ignore(syscall.SIGPIPE) // do not end because the reader of stdout or stderr has gone
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	changed := Watch(ctx, s.Say, s.Files...)
	defer changed.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 2)
	stop, err := s.Start(ctx, failed)
	if err != nil {
		return err
	}
	defer stop()
	s.notify(daemon.SdNotifyReady)
	reloaded := make(chan struct{}, 1)
	reloading, again, asked := false, false, false
	reload := func() {
		reloading, again = true, false
		go func(asked bool) { // it may take seconds, and a signal must not wait for it
			s.reload(asked)
			reloaded <- struct{}{}
		}(asked)
		asked = false
	}
	for {
		select {
		case err := <-failed:
			return err
		case <-changed.Settled:
			again = true
		case <-reloaded:
			reloading = false
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				s.stopping.Store(true)
				s.notify(daemon.SdNotifyStopping)
				return s.Drain(signals)
			}
			again, asked = true, true
		}
		if again && !reloading {
			reload()
		}
	}
}

func (s *Service) reload(asked bool) {
	s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	s.Reload(asked)
	if !s.stopping.Load() {
		s.notify(daemon.SdNotifyReady)
	}
}

// notify tells systemd of a state, if the service has Type=notify.
func (s *Service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.Say("cannot notify systemd: %v", err)
	}
}
