/* An OpenAI-compatible stub on loopback, single-threaded: what it costs is next to nothing, so that clients are measured.

   stub_server LATENCY_MS [FAULTS]   prints its port, then answers every POST LATENCY_MS after it came (0: at once).

   FAULTS in a hundred answers are none: in turn a 429, a 500, half a JSON body, a connection closed without a word.

   HTTP/1.1 with keep-alive and Content-Length bodies; no pipelining. Ratings go round 0 to 4; "n": k in the body brings k
   choices. Any GET is answered with an empty list of models. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 4096
#define REQUEST (1 << 20)
#define ANSWER (1 << 16)

struct connection { char *request; size_t got; int generation; };
struct due { double at; int fd, generation, choices; };

static struct connection connections[CONNECTIONS];
static struct due queue[CONNECTIONS * 2]; /* a ring: the latency is one for all, so it is in order */
static size_t queue_head, queue_tail;
static unsigned long answers, faults;
static int faults_in_100;
static double latency_s;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void end(int fd) {
  free(connections[fd].request);
  connections[fd].request = NULL;
  connections[fd].generation++;
  close(fd);
}

static void send_all(int fd, const char *data, size_t length) {
  while (length) {
    ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
    if (sent > 0) { data += sent; length -= sent; continue; }
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) { usleep(50); continue; }
    return;
  }
}

/* Whether the answer was a fault; the generator is a plain LCG, the same in every run. */
static int fault(int fd) {
  static unsigned long state = 1;
  static const char *kinds[] = {
    "HTTP/1.1 429 Too Many Requests\r\nRetry-After-Ms: 20\r\nContent-Length: 2\r\n\r\n{}",
    "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops",
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"choices\": ",
  };
  state = state * 6364136223846793005UL + 1442695040888963407UL;
  if ((int)((state >> 33) % 100) >= faults_in_100) return 0;
  int kind = faults++ % 4;
  if (kind == 3) end(fd);
  else send_all(fd, kinds[kind], strlen(kinds[kind]));
  return 1;
}

static void answer(int fd, int choices) {
  static char body[ANSWER], head[256];
  int length;
  if (choices > 0 && faults_in_100 && fault(fd)) return;
  if (choices < 0) {
    length = snprintf(body, sizeof body, "{\"object\":\"list\",\"data\":[]}");
  } else {
    length = snprintf(body, sizeof body, "{\"id\":\"stub-%lu\",\"object\":\"chat.completion\",\"created\":0,\"model\":\"stub\",\"choices\":[", answers);
    for (int k = 0; k < choices; k++)
      length += snprintf(body + length, sizeof body - length,
        "%s{\"index\":%d,\"message\":{\"role\":\"assistant\",\"content\":\"Feedback: Answer %lu of the stub, a sentence of some length as judges write it.\\nRating: %lu\"},\"finish_reason\":\"stop\"}",
        k ? "," : "", k, answers, (answers + k) % 5);
    length += snprintf(body + length, sizeof body - length,
      "],\"usage\":{\"prompt_tokens\":400,\"completion_tokens\":%d,\"total_tokens\":%d}}", 20 * choices, 400 + 20 * choices);
    answers++;
  }
  int head_length = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", length);
  char both[sizeof head + ANSWER];
  memcpy(both, head, head_length);
  memcpy(both + head_length, body, length);
  send_all(fd, both, head_length + length);
}

static int choices_of(const char *body) {
  const char *n = strstr(body, "\"n\":");
  int k = n ? atoi(n + 4) : 1;
  return k < 1 ? 1 : k > 128 ? 128 : k;
}

/* 1 if a whole request was there and is taken out; the connection's buffer is NUL-terminated. */
static int take_request(int fd) {
  struct connection *c = &connections[fd];
  char *end_of_head = strstr(c->request, "\r\n\r\n");
  if (!end_of_head) return 0;
  size_t head = end_of_head + 4 - c->request, length = 0;
  char *stated = strcasestr(c->request, "content-length:");
  if (stated && stated < end_of_head) length = strtoul(stated + 15, NULL, 10);
  if (c->got < head + length) return 0;
  int choices = strncmp(c->request, "POST", 4) ? -1 : choices_of(c->request + head);
  c->got = 0;
  if (latency_s > 0 && choices > 0) {
    queue[queue_tail++ % (CONNECTIONS * 2)] = (struct due){now_s() + latency_s, fd, c->generation, choices};
  } else {
    answer(fd, choices);
  }
  return 1;
}

static void receive(int fd) {
  struct connection *c = &connections[fd];
  if (!c->request) c->request = malloc(REQUEST + 1);
  for (;;) {
    ssize_t got = recv(fd, c->request + c->got, REQUEST - c->got, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) { end(fd); return; }
    if (got < 0) return;
    c->got += got;
    c->request[c->got] = 0;
    take_request(fd);
    if (!c->request) return; /* the answer was to close it */
    if (c->got == REQUEST) { end(fd); return; }
  }
}

/* Until the next answer is due, to the microsecond; NULL: nothing is. */
static struct timespec *wait_for(struct timespec *time) {
  if (queue_head == queue_tail) return NULL;
  double left = queue[queue_head % (CONNECTIONS * 2)].at - now_s();
  if (left < 0) left = 0;
  time->tv_sec = (time_t)left;
  time->tv_nsec = (long)((left - time->tv_sec) * 1e9);
  return time;
}

int main(int argc, char **argv) {
  latency_s = argc > 1 ? atof(argv[1]) / 1000 : 0;
  faults_in_100 = argc > 2 ? atoi(argv[2]) : 0;
  struct rlimit files = {CONNECTIONS, CONNECTIONS};
  setrlimit(RLIMIT_NOFILE, &files);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1024)) return perror("stub_server"), 1;
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  int poll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
  epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    struct timespec time;
    int count = epoll_pwait2(poll, events, 256, wait_for(&time), NULL);
    for (int k = 0; k < count; k++) {
      int fd = events[k].data.fd;
      if (fd != listener) { receive(fd); continue; }
      for (int client; (client = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        if (client >= CONNECTIONS) { close(client); continue; }
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connections[client].got = 0;
        event = (struct epoll_event){.events = EPOLLIN, .data.fd = client};
        epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
      }
    }
    for (double now = now_s(); queue_head != queue_tail && queue[queue_head % (CONNECTIONS * 2)].at <= now; queue_head++) {
      struct due *due = &queue[queue_head % (CONNECTIONS * 2)];
      if (connections[due->fd].generation == due->generation) answer(due->fd, due->choices);
    }
  }
}
