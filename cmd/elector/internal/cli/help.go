package cli

const rootHelp = `Elector is the command line of the leader election library of the same name.

SERVICES
    A service is given as a URL. Servers of a cluster stand with commas between.
    zk://host:2181/chroot    etcd://host:2379/prefix    consul://host:8500
    nats://host:4222/bucket  (JetStream)
    k8s://namespace/lease    (Kubernetes, with kubectl's credentials or the Pod's)
    mem:// is in this process, to try things out.
    Parameters: ?timeout=10s is the session timeout, &tls=true asks for TLS. Consul has
    &check=2s besides, for failover in seconds.
    On NATS and Kubernetes each command writes a session, also one that else only reads,
    and makes the Lease if it is missing.

EXIT STATUS
    0    all was done
    1    something failed while running; standard error says what
    2    wrong usage: a command, flag or value that is not taken
    3    nobody leads: of commands about one election
    4    there is no election at the path: the same
    130  interrupted

ENVIRONMENT
    ELECTOR_URL
         is the service's URL, for command lines without one.
    ZOOKEEPER_AUTH_FILE; ETCDCTL_USER, ETCDCTL_PASSWORD_FILE; CONSUL_HTTP_TOKEN_FILE;
    KRB5_CLIENT_KTNAME or KRB5CCNAME with sasl=gssapi; NATS_CREDS; KUBECONFIG
         are credentials: a URL takes none.
    ZOOKEEPER_CACERT, ETCDCTL_CACERT, CONSUL_CACERT, NATS_CA
         are files with certificate authorities. docs/settings.md has all variables.`

const compareHelp = `Compare has candidates elect leaders, by several strategies, in several numbers and
on one or more services, and measures what each costs: time without a leader,
wake-ups, calls and bytes per leader change, how that grows with the number of
candidates, and how fair it is.

Each candidate has a session and connections of its own, all from this process. In
each run they enter one after the other, and then the leader changes again and
again: by resignation, upon which it comes back at the end of the line, or by a
crash, in which its connections are cut without a goodbye. Before each change all
is still. Between changes some leave for good and others join, by a pattern that
--seed determines and that is the same for all strategies.

The default is an embedded service in this process, to and from which messages take
--delay for a round trip. That is a lower bound: a sleep takes longer than asked
for, by up to a millisecond. For the calls to a real service there is no such delay.
5,000 candidates of each strategy and ten changes took ten minutes on a machine with
other work to do: round trips, one after the other, as candidates enter in turn and
the next one of ranked reads all the others. With --delay 0 it took one minute.

On a real service each run takes place under a fresh name at the top,
/elector-compare-..., or below the path of the URL, and removes it afterwards.
Nothing else is read or written. (ZooKeeper's chroot is made if it is missing, and
stays.) A crash lasts until the service has ended the leader's session: the
session timeout, which --ttl or the URL sets, is what a run mostly waits for.

The table's columns are explained below it. --json has all figures, --html draws
them.

EXIT STATUS
    0    all runs came to their end
    1    a run failed, or the report could not be written; the table has what there is
    2    wrong usage, found before anything was run
    130  interrupted: the table has what there is. The first interrupt (Ctrl-C) ends
         the present run, cleans up and prints; the second ends the process at once,
         and leaves the election behind.

ENVIRONMENT
    CONSUL_HTTP_TOKEN and what else Consul's own tools read
         counts for consul:// services, too.
    SSL_CERT_FILE
         names certificate authorities for services with tls=true.`

const compareExamples = `    # all strategies on the embedded service
    elector compare

    # a herd to look at, in a browser
    elector compare --strategy fair,unfair --n 10,100,500 --html report.html

    # real services; a session timeout of four seconds makes crashes short
    elector compare --backend zk://127.0.0.1:2181 --backend etcd://127.0.0.1:2379 --ttl 4s --n 3,10,50 --changes 30

    # Consul, with a health check for a failover in seconds
    elector compare --backend 'consul://127.0.0.1:8500?check=2s' --n 3,10 --changes 20

    # what becomes of a crowd
    elector compare --n 10,100,1000,5000 --changes 10 --crashes 0 --churn 0

    # figures for a script
    elector compare --json - | jq '.runs[] | [.strategy, .n, .perChange.wakeUps]'`

const runHelp = `Run stands in an election, and runs a command while it leads. So a program in any
language runs once in a fleet. Each machine runs the same line.

The command and all that it starts are gone before another machine's command can
start: elector asks them to end by SIGTERM, and kills them by SIGKILL. A process of
its own, the watchdog, does that in time if elector itself is killed or stopped. See
docs/command.md for what that rests on, and for what escapes.

A command that ends by itself ends elector: the exit code is passed on, and the seat
is free, so that the next machine starts its command. With --restart it is started
again, and elector leads on. A command that elector ends, as the term is to end, does
not end elector: it stands again. With --once it does.

SIGTERM, SIGINT or SIGHUP to elector ends the command in the same way, and then
resigns. A second one ends all at once.

EXIT STATUS
    the command's own, if its end has ended elector, or elector was told to end
         while it ran; 128 and the signal's number if a signal has ended it;
         126 if it could not be started
    1    something else failed; standard error says what
    2    wrong usage, such as a command that is not there
    130  interrupted while no command ran

ENVIRONMENT
    ELECTOR_URL  the service's URL, for command lines without one

ENVIRONMENT OF THE COMMAND
    ELECTOR_TOKEN     the fencing token of the term: it rises from term to term
    ELECTOR_ID        the name of this candidate
    ELECTOR_ELECTION  the path of the election`

const runExamples = `    # a daemon on one machine of the fleet
    elector run etcd://etcd1:2379,etcd2:2379 /jobs/feed -- feedd --foreground

    # one that is started again when it crashes, and may take a minute to end
    elector run zk://zk1:2181 /jobs/feed --restart --grace 1m -- feedd --foreground

    # failover in seconds on Consul; the address is for others to see
    elector run 'consul://127.0.0.1:8500?check=2s' /db/primary --value 10.0.0.7:5432 -- ./primary

    # a machine that is preferred at each change, where the others have --rank 1
    elector run etcd://etcd1:2379 /jobs/feed --strategy ranked --rank 2 -- feedd --foreground

    # try your command without a service: it leads at once
    elector run mem:// /try -- sh -c 'echo token $ELECTOR_TOKEN'`

const agentHelp = `Agent ends the sessions of processes of this host when they die: by kill -9, the OOM
killer, a crash. So the next candidate leads in milliseconds, and not when the session
has timed out. It is for containers, above all. Elsewhere "elector run", and a program
with package lastwill, have a companion of their own.

Processes connect to its socket: "elector run --agent PATH", or Options.Agent of package
lastwill. It acts on one thing only: that the kernel says that the process is dead. It
has to see the processes: in Kubernetes it is a sidecar in a Pod with
shareProcessNamespace, elsewhere it runs in the process namespace of the host. The
agent's end costs speed and nothing else. Processes connect to the next one by themselves.

Whoever may connect can have sessions of these services ended whose names it knows. Give
the socket's folder and file the rights for that.

It takes Linux 5.3 or later. A socket that a dead agent has left is replaced. One at
which somebody listens is not, and neither is a file that is no socket.

EXIT STATUS
    1    it cannot serve, as at a socket where another agent does; standard error says why
    2    wrong usage
    130  interrupted, as by SIGTERM: the sessions that it was about to end are ended

ENVIRONMENT
    ELECTOR_URL  the service's URL, for command lines without one
    The credentials are those of "elector run": see "elector --help".`

const agentExamples = `    # for all processes of the host that are root's
    elector agent --socket /run/elector/agent.sock --backend etcd://etcd1:2379,etcd2:2379

    # for those of a group, which the folder belongs to; two services
    elector agent --socket /run/elector/agent.sock --mode 0660 --backend zk://zk1:2181 --backend etcd://etcd1:2379`

const statusHelp = `Status says who leads an election: its ID and value, the fencing token of its term,
and whether somebody has asked it to go. It reads, and changes nothing.` + lookHelp

const candidatesHelp = `Candidates lists who stands in an election, in order of succession where the
strategy has one. It reads, and changes nothing.` + lookHelp

const listHelp = `Ls lists the elections at a path and below, with who leads and how many stand; all of
the service without a path. It reads, and changes nothing.

EXIT STATUS
    0    all was listed
    1    something failed, or not all was listed; standard error says what
    2    wrong usage
    130  interrupted` + urlHelp

const watchHelp = `Watch prints who leads an election, and a line at each change, until it is interrupted. It goes
on while the service is away, and says so.

EXIT STATUS
    1    the service refuses to be asked
    2    wrong usage
    130  interrupted` + urlHelp

const doctorHelp = `Doctor says whether a service is fit for leader election, and whether these credentials
can hold elections at a path and below: anywhere without a path.

It asks each server by itself, and then does on the service what a candidate does: it
opens sessions, writes some ten times below the path, watches, and deletes what it
wrote. (ZooKeeper's chroot is made if it is missing, and stays.) It changes nothing
else. Candidates may run meanwhile.

Each line is one finding: ok, warn (elections work, for now), fail, or unknown (it
cannot be told). A line with an arrow says what to do.

EXIT STATUS
    0    nothing fails; there may be warnings
    1    something fails: elections do not work, or not with these credentials
    2    wrong usage, settings of the credentials included
    130  interrupted` + urlHelp

const doctorExamples = `    elector doctor zk://zk1:2181,zk2:2181,zk3:2181
    elector doctor etcd://etcd1:2379,etcd2:2379,etcd3:2379 /jobs
    elector doctor --json | jq '.level'`

const dashboardHelp = `Dashboard serves a page that shows the elections at a path and below, all of the service
without one: who leads, with which token and for how long; who stands, in order; the
terms since the dashboard began; and the time without a leader. It changes by itself.

The page reads, and changes nothing. With --allow-changes the address that is logged
has a token behind its #. Whoever opens that address can ask leaders to go,
transfer and designate. Keep it to yourself.

There is no TLS and no login. Whoever reaches the address sees the page: by default
that is this machine alone. From elsewhere, go through ssh -L 4041:127.0.0.1:4041, or
a proxy that has people log in.

EXIT STATUS
    1    the page cannot be served; standard error says why
    2    wrong usage
    130  interrupted` + urlHelp

const resignHelp = `Resign asks the leader to go. It returns when the leader is asked; "elector watch" shows it go.
The leader's program ends its work first, and then another candidate leads.` + actHelp

const transferHelp = `Transfer asks the leader to go, and has the candidate with this ID lead next. It returns when
the leader is asked; "elector watch" shows it done.` + actHelp

const designateHelp = `Designate has the candidate with this ID outrank all others until "elector undesignate" takes
that back. It need not stand yet. The strategy ranked alone heeds it.

Where the candidates preempt ("elector run --preempt-after 0s"), the leader goes by itself.
Elsewhere the candidate leads at the next change: "elector resign" makes one.` + writeHelp

const undesignateHelp = `Undesignate takes a designation back. It moves nothing: who leads goes on, unless a better
candidate preempts.` + writeHelp

const removeHelp = `Rm removes what an election has left in the service: its directory, and its record. It refuses
while somebody stands, unless --evict is given.

EXIT STATUS
    0    it is removed
    1    it is refused, or the service could not be asked; standard error says why
    2    wrong usage
    4    there is no election at the path
    130  interrupted` + urlHelp

const actHelp = `

EXIT STATUS
    0    the leader is asked
    1    it is refused, or the service could not be asked; standard error says why
    2    wrong usage
    3    nobody leads who could be asked
    4    there is no election at the path
    130  interrupted` + urlHelp

const writeHelp = `

EXIT STATUS
    0    it is written
    1    it is refused, or the service could not be asked; standard error says why
    2    wrong usage
    4    there is no election at the path
    130  interrupted` + urlHelp

const lookHelp = `

EXIT STATUS
    0    somebody leads
    1    the service could not be asked; standard error says why
    2    wrong usage
    3    nobody leads
    4    there is no election at the path
    130  interrupted` + urlHelp

const urlHelp = `

ENVIRONMENT
    ELECTOR_URL  the service's URL, for command lines without one`
