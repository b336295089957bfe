//go:build unix

// Package realserver starts redis-server and valkey-server programs for tests.
package realserver

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Programs returns the server programs that are installed. If there are none, the test is skipped.
func Programs(tb testing.TB) []string {
	tb.Helper()
	var found []string
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		} else {
			tb.Logf("SKIPPED: %s is not installed", name)
		}
	}
	if len(found) == 0 {
		tb.Skip("SKIPPED: neither redis-server nor valkey-server is installed; apt-get install redis-server")
	}
	return found
}

// Server is a server for one test, on a free port, without persistence.
type Server struct {
	Addr string
	Port int

	tb      testing.TB
	program string
	args    []string
	cmd     *exec.Cmd
}

// Start starts a server and waits until it replies. The server ends with the test.
func Start(tb testing.TB, program string, args ...string) *Server {
	tb.Helper()
	port := FreePort(tb)
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, tb: tb, program: program}
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", tb.TempDir(), "--daemonize", "no", "--protected-mode", "no",
	}, args...)
	s.Restart()
	tb.Cleanup(s.Kill)
	return s
}

// Replica starts a replica of the primary and waits until it is synchronized.
func Replica(tb testing.TB, program string, primary *Server) *Server {
	tb.Helper()
	s := Start(tb, program, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port), "--repl-diskless-sync-delay", "0")
	s.AwaitInfo("master_link_status:up")
	return s
}

// SentinelName is the name by which a sentinel knows its primary.
const SentinelName = "primary"

// Sentinel starts a sentinel for the primary and its replica. It fails over when Failover tells it to, and by itself when the
// primary has not replied for downAfter; 0 means never.
func Sentinel(tb testing.TB, program string, primary *Server, downAfter time.Duration) *Server {
	tb.Helper()
	port, dir := FreePort(tb), tb.TempDir()
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, tb: tb, program: program}
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\nprotected-mode no\ndir %s\nsentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %[3]s %[5]d\n",
		port, dir, SentinelName, primary.Port, cmp.Or(downAfter, 10*time.Minute).Milliseconds())
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.Restart()
	tb.Cleanup(s.Kill)
	s.await("its replica", func(c *redis.Client) bool {
		info, err := c.Info(tb.Context(), "sentinel").Result()
		return err == nil && strings.Contains(info, "slaves=1,")
	})
	return s
}

// Failover tells a sentinel to promote the replica, and repeats that until the sentinel accepts.
func (s *Server) Failover() {
	s.tb.Helper()
	s.await("failover", func(c *redis.Client) bool {
		return c.Do(s.tb.Context(), "SENTINEL", "FAILOVER", SentinelName).Err() == nil
	})
}

// AwaitInfo waits until the server's replication info contains the text.
func (s *Server) AwaitInfo(text string) {
	s.tb.Helper()
	s.await(text, func(c *redis.Client) bool {
		info, err := c.Info(s.tb.Context(), "replication").Result()
		return err == nil && strings.Contains(info, text)
	})
}

// FreePort returns an unused port whose cluster port is unused, too.
func FreePort(tb testing.TB) int {
	tb.Helper()
	for {
		var c net.ListenConfig
		l, err := c.Listen(tb.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close() // it was only to learn the port
		// A server of a cluster listens 10,000 above as well.
		bus, err := c.Listen(tb.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(min(port+10_000, 65_535))))
		if err != nil {
			continue
		}
		_ = bus.Close()
		if port < 55000 {
			return port
		}
	}
}

// Restart kills the server and starts it again, without its data.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	s.cmd = exec.CommandContext(context.WithoutCancel(s.tb.Context()), s.program, s.args...)
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	s.WaitReady()
}

// WaitReady waits until the server replies.
func (s *Server) WaitReady() {
	s.tb.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }() // it was only to ask
	timer := time.NewTicker(10 * time.Millisecond)
	defer timer.Stop()
	for range 1000 {
		if c.Ping(context.WithoutCancel(s.tb.Context())).Err() == nil {
			return
		}
		<-timer.C
	}
	s.tb.Fatalf("%s does not reply", s.Addr)
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Signal sends the server a signal.
func (s *Server) Signal(signal os.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.tb.Error(err)
	}
}

// Client returns a client for the test's own commands.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1})
}

// A cluster has three masters.
const masters, slots = 3, 16384

// Cluster starts a cluster.
func Cluster(tb testing.TB, program string, args ...string) []*Server {
	tb.Helper()
	nodes := make([]*Server, masters)
	for i := range nodes {
		nodes[i] = Start(tb, program, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, args...)...)
	}
	for i, n := range nodes {
		c := n.Client()
		if err := c.ClusterAddSlotsRange(tb.Context(), i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			tb.Fatal(err)
		}
		for _, other := range nodes {
			if other != n {
				c.ClusterMeet(tb.Context(), "127.0.0.1", strconv.Itoa(other.Port))
			}
		}
		_ = c.Close() // a test's
	}
	for _, n := range nodes {
		n.await("CLUSTER INFO", func(c *redis.Client) bool {
			info, err := c.ClusterInfo(tb.Context()).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters))
		})
	}
	return nodes
}

// Master returns the number of the master that a cluster has given the key.
func Master(tb testing.TB, nodes []*Server, key string) int {
	tb.Helper()
	c := nodes[0].Client()
	defer func() { _ = c.Close() }() // it was only to ask
	slot, err := c.ClusterKeySlot(tb.Context(), key).Result()
	if err != nil {
		tb.Fatal(err)
	}
	i := 0
	for (i+1)*slots/masters <= int(slot) {
		i++
	}
	return i
}

// ClusterReplica starts a replica of the master that has the key's slot, and waits until the replica is synchronized and known to
// the cluster. It returns the master.
func ClusterReplica(tb testing.TB, program string, nodes []*Server, key string) (master *Server) {
	tb.Helper()
	var id string
	for _, n := range nodes {
		c := n.Client()
		slot, err := c.ClusterKeySlot(tb.Context(), key).Result()
		if err != nil {
			tb.Fatal(err)
		}
		slots, err := c.ClusterShards(tb.Context()).Result()
		if err != nil {
			tb.Fatal(err)
		}
		for _, shard := range slots {
			for _, r := range shard.Slots {
				if r.Start <= slot && slot <= r.End && shard.Nodes[0].Port == int64(n.Port) {
					master, id = n, shard.Nodes[0].ID
				}
			}
		}
		_ = c.Close() // it was only to ask
	}
	replica := Start(tb, program, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
	c := replica.Client()
	defer func() { _ = c.Close() }() // it was only to ask
	c.ClusterMeet(tb.Context(), "127.0.0.1", strconv.Itoa(master.Port))
	replica.await("CLUSTER REPLICATE", func(c *redis.Client) bool { return c.ClusterReplicate(tb.Context(), id).Err() == nil })
	replica.AwaitInfo("master_link_status:up")
	for _, n := range nodes {
		n.await("CLUSTER NODES", func(c *redis.Client) bool {
			known, err := c.ClusterNodes(tb.Context()).Result()
			return err == nil && strings.Contains(known, "slave "+id)
		})
	}
	return master
}

// await waits until a condition holds.
func (s *Server) await(what string, is func(*redis.Client) bool) {
	s.tb.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }() // it was only to ask
	timer := time.NewTicker(20 * time.Millisecond)
	defer timer.Stop()
	for range 1500 {
		if is(c) {
			return
		}
		<-timer.C
	}
	s.tb.Fatalf("%s: timed out waiting for %s", s.Addr, what)
}

// MoveSlot moves the slot of a key from the master that has it to another.
func MoveSlot(tb testing.TB, nodes []*Server, key string) {
	tb.Helper()
	ctx := tb.Context()
	var from, to *Server
	ids := make([]string, 0, len(nodes))
	clients := make([]*redis.Client, len(nodes))
	for i, n := range nodes {
		clients[i] = n.Client()
		tb.Cleanup(func() { _ = clients[i].Close() }) // it was only to ask
		id, err := clients[i].Do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, id)
	}
	slot, err := clients[0].ClusterKeySlot(ctx, key).Result()
	if err != nil {
		tb.Fatal(err)
	}
	var a, b int
	for i, c := range clients {
		if keys, err := c.ClusterCountKeysInSlot(ctx, int(slot)).Result(); err == nil && keys > 0 {
			a, b = i, (i+1)%len(nodes)
			from, to = nodes[a], nodes[b]
		}
	}
	if from == nil {
		tb.Fatalf("no node has the slot of %q", key)
	}
	check := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	check(clients[b].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[a]).Err())
	check(clients[a].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[b]).Err())
	keys, err := clients[a].ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
	check(err)
	for _, k := range keys {
		check(clients[a].Migrate(ctx, "127.0.0.1", strconv.Itoa(to.Port), k, 0, 5*time.Second).Err())
	}
	for _, i := range []int{b, a} {
		check(clients[i].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[b]).Err())
	}
}
