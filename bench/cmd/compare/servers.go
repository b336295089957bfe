package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a proxy that runs as a process of its own.
type server struct {
	name, address string
	process       *exec.Cmd
}

const limits = `listen: %s
to: http://%s
policies:
  ip: {key: ip, limit: %s}
routes: {/: ip}
`

const nginxConfig = `daemon off;
worker_processes auto;
pid nginx.pid;
error_log stderr error;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	scgi_temp_path scgi;
	uwsgi_temp_path uwsgi;
	keepalive_requests 100000000;
	limit_req_zone $binary_remote_addr zone=ip:10m %s;
	limit_req_status 429;
	limit_req_log_level info;
	upstream backend {
		server %s;
		keepalive 64;
		keepalive_requests 100000000;
	}
	server {
		listen %s backlog=1024;
		location / {
			limit_req zone=ip %s nodelay;
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`

// three starts sluice proxy, a ReverseProxy and nginx; stop ends them.
func (b bench) three(backend, limit, rate, burst string) (ours, alone, nginx *server, stop func(), err error) {
	var all []*server
	stop = func() {
		for _, s := range all {
			s.stop()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	dir, err := os.MkdirTemp(b.dir, "proxies-")
	if err != nil {
		return nil, nil, nil, stop, err
	}
	start := func(name, file, text, program string, arguments ...string) *server {
		s := &server{name: name}
		if err != nil {
			return s
		}
		if s.address, err = freeAddress(); err != nil {
			return s
		}
		for i := range arguments {
			arguments[i] = strings.ReplaceAll(arguments[i], "ADDRESS", s.address)
		}
		text = strings.ReplaceAll(text, "ADDRESS", s.address)
		if err = os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			return s
		}
		if err = s.start(b.ctx, program, arguments...); err == nil {
			all = append(all, s)
			err = s.await(b.ctx)
		}
		return s
	}
	ours = start("sluice", "limits.yaml", fmt.Sprintf(limits, "ADDRESS", backend, limit),
		b.sluice, "proxy", "--config", filepath.Join(dir, "limits.yaml"))
	alone = start("ReverseProxy alone", "none", "", b.self, "-as", "alone", "ADDRESS", backend)
	nginx = start("nginx", "nginx.conf", fmt.Sprintf(nginxConfig, rate, backend, "ADDRESS", burst),
		b.nginx, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
	return ours, alone, nginx, stop, err
}

// backend starts the server behind the proxies.
func (b bench) backend() (s *server, err error) {
	s = &server{name: "the backend"}
	if s.address, err = freeAddress(); err != nil {
		return nil, err
	}
	if err := s.start(b.ctx, b.self, "-as", "backend", s.address); err != nil {
		return nil, err
	}
	if err := s.await(b.ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// freeAddress returns an unused address of this machine.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *server) start(ctx context.Context, program string, arguments ...string) error {
	s.process = exec.CommandContext(ctx, program, arguments...)
	s.process.Cancel = func() error { return s.process.Process.Signal(syscall.SIGTERM) } // nginx ends its workers then
	s.process.WaitDelay = 10 * time.Second
	s.process.Stderr = os.Stderr
	return s.process.Start()
}

// await returns once the server answers.
func (s *server) await(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w", s.name, err)
		}
	}
}

func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
}

// effort is the CPU time that the server and its children have taken, 0 where there is no /proc.
func (s *server) effort() (sum time.Duration) {
	pid := strconv.Itoa(s.process.Process.Pid)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", pid, pid))
	for _, p := range append(strings.Fields(string(children)), pid) {
		stat, err := os.ReadFile("/proc/" + p + "/stat")
		if err != nil {
			return 0
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, ticks := range strings.Fields(rest)[11:13] { // utime and stime
			n, _ := strconv.Atoi(ticks)
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
