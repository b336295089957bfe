package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testkit"
)

func TestPerIP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httplimit.PerIP(10, 20)(ok)
		from := func(address string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = address
			return play(h, r)
		}
		for range 20 {
			require.Equal(t, http.StatusOK, from("192.0.2.1:1").Code)
		}
		w := from("192.0.2.1:2")
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusOK, from("192.0.2.2:1").Code, "another client")
		for i := range 20 {
			require.Equal(t, http.StatusOK, from(fmt.Sprintf("[2001:db8::%x]:1", i+1)).Code)
		}
		require.Equal(t, http.StatusTooManyRequests, from("[2001:db8::ffff:0:0:1]:1").Code, "the same /64")
		require.Equal(t, http.StatusOK, from("[2001:db8:0:1::1]:1").Code)
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, http.StatusOK, from("192.0.2.1:1").Code)
		require.Equal(t, http.StatusTooManyRequests, from("192.0.2.1:1").Code)
	})
	require.Panics(t, func() { httplimit.PerIP(0, 1) })
	require.Panics(t, func() { httplimit.PerIP(1, 0) })
	if testkit.Race {
		return // it takes half a minute
	}
	synctest.Test(t, func(t *testing.T) { // more clients than there are limiters share one
		h, r := httplimit.PerIP(1, 1)(ok), httptest.NewRequest(http.MethodGet, "/", nil)
		for i := range 100_000 {
			r.RemoteAddr = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String()
			if got := play(h, r).Code; got != http.StatusOK {
				t.Fatal(i, got)
			}
		}
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d", want-http.StatusOK) // two more
			require.Equal(t, want, play(h, r).Code)
		}
	})
}
