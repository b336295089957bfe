package service_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/sluice-go/sluice/cmd/sluice/internal/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGuard rejects requests that a page in a browser may have sent.
func TestGuard(t *testing.T) {
	h := service.Guard("admin.example:9090", func(http.ResponseWriter, *http.Request) {})
	for _, test := range []struct {
		host, header string
		want         int
	}{
		{"127.0.0.1:9090", "", http.StatusOK},
		{"localhost", "", http.StatusOK},
		{"Admin.example", "", http.StatusOK},
		{"page.example", "", http.StatusForbidden},
		{"", "", http.StatusForbidden},
		{"127.0.0.1:9090", "Origin", http.StatusForbidden},
		{"127.0.0.1:9090", "Sec-Fetch-Site", http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodPost, "/limits/a/reset", nil)
		r.Host = test.host
		if test.header != "" {
			r.Header.Set(test.header, "null")
		}
		w := httptest.NewRecorder()
		h(w, r)
		assert.Equal(t, test.want, w.Code, "%s %s", test.host, test.header)
	}
}

// TestResetKey accepts no other parameter than key: a misspelled one would reset all keys.
func TestResetKey(t *testing.T) {
	key, err := service.ResetKey(httptest.NewRequest(http.MethodPost, "/reset?key=a&key=b", nil))
	assert.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, key)
	_, err = service.ResetKey(httptest.NewRequest(http.MethodPost, "/reset?kye=a", nil))
	assert.ErrorContains(t, err, `unknown parameter "kye", want key`)
}
