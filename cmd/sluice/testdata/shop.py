"""A server that knows its clients as PHP and the usual libraries do: by a cookie that is decoded, by a bearer token whose scheme has no
case, and by a query parameter whose name is folded. It prints its port."""
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, unquote_plus


def fold(name):
    name = name.split("\0")[0].lstrip(" ")
    at = re.search(r"[ .\[]", name)
    while at:
        if at[0] == "[" and "]" in name[at.start():]:
            return name[:at.start()]
        name = name[:at.start()] + "_" + name[at.end():]
        at = re.search(r"[ .\[]", name)
    return name


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        known = ""
        if path == "/query":
            for pair in query.split("&"):
                name, _, value = pair.partition("=")
                if fold(unquote_plus(name)) == "user_id":
                    known = unquote_plus(value)
        elif path == "/cookie":
            for pair in "; ".join(self.headers.get_all("Cookie", [])).split(";"):
                name, _, value = pair.partition("=")
                if fold(name) == "user_id":
                    known = unquote(value.strip().strip('"'))
        else:
            token = re.match(r"(?i)^bearer\s+(\S+)", self.headers.get("Authorization", ""))
            known = token[1] if token else ""
        self.send_response(200 if known == "abc" else 401)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
print(server.server_port)
sys.stdout.flush()
server.serve_forever()
