package server

import (
	"bytes"
	"net/http"
)

// A request with both Content-Length and Transfer-Encoding may be an attempt at smuggling a second one past a server in front:
// RFC 9112, section 6.1, has the connection closed after the answer. net/http drops the Content-Length unseen, so a connection
// notes for itself whether a client has ever sent that name. A connection that is closed without need, as the name stood in a
// body or in an earlier request, costs its client a new one.

const lengthField = "content-length"

// mayHaveLength reports whether a request with a Transfer-Encoding may also have had a Content-Length. What comes over TLS is
// read where nothing of ours can look, so there it may always.
func mayHaveLength(r *http.Request) bool {
	if r.ProtoMajor != 1 || len(r.TransferEncoding) == 0 {
		return false
	}
	c, ok := r.Context().Value(connKey{}).(*clientConn)
	return r.TLS != nil || !ok || c.length.Load()
}

// noteLength looks for the name of Content-Length in what was read, which continues what was read before.
func (c *clientConn) noteLength(p []byte) {
	const most = len(lengthField) - 1 // bytes that may be the beginning of it
	if c.length.Load() {
		return
	}
	seam := append(make([]byte, 0, 2*most), c.tail...)
	seam = append(seam, p[:min(len(p), most)]...)
	if hasLengthField(seam) || hasLengthField(p) {
		c.length.Store(true)
	}
	if len(p) >= most {
		seam = p
	}
	c.tail = append(c.tail[:0], seam[max(0, len(seam)-most):]...)
}

func hasLengthField(p []byte) bool {
	const hyphen = len("content")
	for i := 0; ; i++ {
		at := bytes.IndexByte(p[i:], '-')
		if at < 0 {
			return false
		}
		i += at
		from, to := i-hyphen, i-hyphen+len(lengthField)
		if from >= 0 && to <= len(p) && bytes.EqualFold(p[from:to], []byte(lengthField)) {
			return true
		}
	}
}
