package goredis_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/redislimit"
	"github.com/sluice-go/sluice/redislimit/goredis"
)

// losing is a connection that ends before the reply to the next script, if lose is set.
type losing struct {
	net.Conn

	lose *atomic.Bool
	lost atomic.Bool
}

func (c *losing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("evalsha")) && c.lose.CompareAndSwap(true, false) {
		c.lost.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *losing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.lost.Load() {
		_ = c.Conn.Close() // go-redis may read once more
		return 0, io.EOF
	}
	return n, err
}

// A request whose reply is lost may have been granted. It is not sent again, although go-redis retries other commands. It counts as
// taken, once.
func TestARequestIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lose atomic.Bool
		m := miniredis.NewMiniRedis()
		t.Cleanup(m.Close)
		c := redis.NewClient(&redis.Options{
			Addr:       "192.0.2.1:6379", // NewClient would look a name up
			MaxRetries: 5,
			Dialer: func(context.Context, string, string) (net.Conn, error) {
				conn, err := m.Dial()
				return &losing{Conn: conn, lose: &lose}, err
			},
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		t.Cleanup(func() { c.Close() })
		l := limiter(t, redislimit.StoreOptions{Store: goredis.New(c), Key: "key", Timeout: 5 * time.Second})
		require.NoError(t, l.TryAcquire(1).Err()) // the server knows the script then
		lose.Store(true)
		err := l.TryAcquire(1).Err()
		require.ErrorIs(t, err, redislimit.ErrStore)
		require.ErrorIs(t, err, io.EOF)
		require.False(t, lose.Load())
		time.Sleep(time.Second)
		require.Equal(t, 98, l.Available())
	})
}
