package server

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certificate writes that of an httptest server, and its key.
func certificate(t *testing.T, s *httptest.Server) (cert, key string) {
	t.Helper()
	pair := s.TLS.Certificates[0]
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return cert, key
}

// TestHTTP2: over TLS, and without where the client knows that it may. The files of TLS are read with the configuration, and a
// limit is changed whatever is in them.
func TestHTTP2(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(hello))
	t.Cleanup(secure.Close)
	cert, key := certificate(t, secure)
	for _, test := range []struct{ scheme, tls string }{
		{"http", ""},
		{"https", "tls: {cert: " + cert + ", key: " + key + "}\n"},
	} {
		p := serves(t, hello, ""+test.tls+"global: {key: ip, limit: fixed 1/1h}\n")
		if test.tls != "" {
			write(t, cert, "broken")
			p.reload(true)
			assert.Contains(t, p.said.String(), "limits.yaml:3:13: tls: failed to find any PEM data")
		}
		_, _ = p.asksAdmin("PUT", "/limits/global", `{"limit": "fixed 2/1h"}`)
		transport := secure.Client().Transport.(*http.Transport).Clone()
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(test.scheme == "https")
		transport.Protocols.SetUnencryptedHTTP2(test.scheme == "http")
		t.Cleanup(transport.CloseIdleConnections)
		client := http.Client{Transport: transport}
		for _, want := range []int{200, 200, 429} {
			a, err := client.Post(test.scheme+"://"+p.address, "text/plain", strings.NewReader("body"))
			require.NoError(t, err)
			_ = a.Body.Close()
			assert.Equal(t, want, a.StatusCode)
			assert.Equal(t, 2, a.ProtoMajor)
		}
	}
}
