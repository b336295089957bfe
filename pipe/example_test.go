package pipe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/pipe"
)

func ExampleNew() {
	// At most 16 bytes in memory: a faster writer waits for the reader.
	budget := core.Must(core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 16, QueueLimit: 16}))
	r, w, err := pipe.New(pipe.Options{WriteLimiter: budget})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		for _, line := range []string{"first", "second", "third"} {
			_, _ = fmt.Fprintln(w, line)
		}
		_ = w.Close()
	}()
	text, err := io.ReadAll(r)
	fmt.Printf("%s%v, %d free\n", text, err, budget.Available())
	// Output:
	// first
	// second
	// third
	// <nil>, 16 free
}

func ExampleConns() {
	client, server, err := pipe.Conns(pipe.Options{}, pipe.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	_, _ = fmt.Fprint(client, "hello") // buffered: it does not wait for a reader

	_ = client.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err = client.Read(make([]byte, 1))
	fmt.Println(errors.Is(err, os.ErrDeadlineExceeded))

	_ = client.Close()
	text, _ := io.ReadAll(server)
	fmt.Println(string(text))
	// Output:
	// true
	// hello
}

func ExampleReader_ReadContext() {
	r, _, _ := pipe.New(pipe.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := r.ReadContext(ctx, make([]byte, 1))
	fmt.Println(err)
	// Output: context deadline exceeded
}

func ExampleReader_Buffered() {
	r, w, _ := pipe.New(pipe.Options{})
	_, _ = fmt.Fprint(w, "hello")
	fmt.Println(r.Buffered())
	// Output: 5
}

func ExampleReader_Close() {
	l, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 10})
	r, w, _ := pipe.New(pipe.Options{WriteLimiter: l})
	_, _ = fmt.Fprint(w, "hello")
	fmt.Println(l.Available())
	_ = r.Close() // it is not read any more
	fmt.Println(l.Available())
	// Output:
	// 5
	// 10
}

func ExampleReader_CloseWithError() {
	r, w, _ := pipe.New(pipe.Options{})
	_ = r.CloseWithError(errors.New("disk full"))
	_, err := fmt.Fprint(w, "hello")
	fmt.Println(err)
	// Output: disk full
}

func ExampleWriter_Write() {
	l, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4})
	r, w, _ := pipe.New(pipe.Options{WriteLimiter: l})
	go func() {
		_, _ = w.Write([]byte("hello")) // waits until a byte has been read
		_ = w.Close()
	}()
	all, err := io.ReadAll(r)
	fmt.Printf("%s %v\n", all, err)
	// Output: hello <nil>
}

func ExampleWriter_WriteContext() {
	l, _ := core.NewConcurrencyLimiter(core.ConcurrencyLimiterOptions{PermitLimit: 4, QueueLimit: 4})
	_, w, _ := pipe.New(pipe.Options{WriteLimiter: l})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
	defer cancel()
	n, err := w.WriteContext(ctx, []byte("hello"))
	fmt.Println(n, err)
	// Output: 4 context deadline exceeded
}

func ExampleWriter_CloseWithError() {
	r, w, _ := pipe.New(pipe.Options{})
	_, _ = fmt.Fprint(w, "hello")
	_ = w.CloseWithError(errors.New("source lost"))
	text, err := io.ReadAll(r)
	fmt.Println(string(text), err)
	// Output: hello source lost
}
