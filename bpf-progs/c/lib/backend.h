/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The choice of a service's backend. */
#pragma once

#include "affinity.h"
#include "drop.h"

#define BACKEND_DROP(reason) DROP_FROM(FILE_BACKEND_H, reason)

/* How often a choice is tried: rows of services, slots and backends may go while they are read, when the
 * agent replaces them. What it puts in their place is there before. */
#define BACKEND_ATTEMPTS 6
/* Of these, how often only a backend will do that takes new connections. */
#define BACKEND_ATTEMPTS_CHOOSY 4

struct backend {
	union address address;
	__u32 id;
	__be16 port;
	__u8 state; /* enum backend_state */
};

/* Whether a row is still that of a key. */
always_inline bool member_is(const struct member_key *row, const struct member_key *key)
{
	return *(const volatile __u32 *)&row->backend == key->backend &&
	       *(const volatile __be16 *)&row->rev_nat == key->rev_nat;
}

/* Copies what a service says of a backend, if it lists that. As with config_read() the row may be another's
 * meanwhile. */
always_inline bool backend_read(struct backend *backend, __be16 rev_nat, __u32 id, int family)
{
	const struct member_key key = {.backend = id, .rev_nat = rev_nat};

	for (int attempt = 0; attempt < 2; attempt++) {
		struct backend found = {.id = id};

		if (family == FAMILY_IPV4) {
			struct member4_row *row = bpf_map_lookup_elem(&volvox_lb4_members, &key);

			if (!row)
				continue;
			found.port = row->port;
			found.state = row->state;
			found.address.v4 = row->address;
			keep_apart();
			if (unlikely(!member_is(&row->key, &key)))
				continue;
		} else {
			struct member6_row *row = bpf_map_lookup_elem(&volvox_lb6_members, &key);

			if (!row)
				continue;
			found.port = row->port;
			found.state = row->state;
			__builtin_memcpy(&found.address, row->address, 16);
			keep_apart();
			if (unlikely(!member_is(&row->key, &key)))
				continue;
		}
		/* Not before: of what may be undefined on another path, clang 22 makes a register that is read
		 * without having been written. */
		*backend = found;
		return true;
	}
	return false;
}

always_inline void *maglev_lookup(__be16 rev_nat, int family)
{
	if (family == FAMILY_IPV4)
		return bpf_map_lookup_elem(&cilium_lb4_maglev, &rev_nat);
	return bpf_map_lookup_elem(&cilium_lb6_maglev, &rev_nat);
}

/* The backend that Maglev gives a connection; 0 if the service has no table. */
always_inline __u32 maglev_find(__be16 rev_nat, __u32 hash, int family)
{
	__u32 zero = 0, index = hash % MAGLEV, *backends;

	/* Else clang 19 takes its upper half for zero, and verifiers before Linux 6.18 do not. */
	opaque(index);
	for (int look = 0; look < 2; look++) {
		void *table = maglev_lookup(rev_nat, family);

		/* The verifier does not know of remainders. */
		if (!table || index >= MAGLEV)
			continue;
		backends = bpf_map_lookup_elem(table, &zero);
		/* As with service_read() it may be another service's. */
		if (backends && maglev_lookup(rev_nat, family) == table)
			return backends[index];
	}
	return 0;
}

/* The backend in one of a service's slots, by a number that is drawn. Quarantined ones stand behind
 * those in use, so they are the first only where there is no other. 0 if the slot went. */
always_inline __u32 slot_find(const struct lb_row *service, union lb_key *key, __u32 drawn, int family)
{
	__u32 count = service->count ? service->count : service->qcount;
	struct lb_row *row;

	service_slot(key, 1 + drawn % count, family);
	row = service_lookup(key, family);
	service_slot(key, 0, family);
	/* The memory of a row that goes may be another service's next. */
	if (!row || (row->rev_nat && row->rev_nat != service->rev_nat))
		return 0;
	return row->backend;
}

/* Whether a backend takes new connections. */
always_inline bool backend_takes(const struct backend *backend, const struct lb_row *service)
{
	if (backend->state == BACKEND_QUARANTINED)
		return !service->count;
	return backend->state == BACKEND_ACTIVE;
}

/* Whether a backend goes on with what it has of a protocol: who is not ready keeps what would break, and
 * datagrams find somebody who is. */
always_inline bool backend_keeps(const struct backend *backend, __u8 protocol)
{
	return backend->state != BACKEND_MAINTENANCE || protocol != IPPROTO_UDP;
}

/* Chooses the backend of a new connection to the service of a key, whose row it is given and reads anew if it
 * has to. `hash` is that of its ends; without one, 0, tables are not asked. Returns 0, or a drop. */
always_inline int backend_choose(union lb_key *key, struct lb_row *service, const struct client *client, __u32 hash,
				 struct backend *backend, int family)
{
	__u32 drawn = 0, id;

	for (int attempt = 0; attempt < BACKEND_ATTEMPTS; attempt++) {
		if (attempt && !service_read(key, service, SERVICE_SURE, family))
			return BACKEND_DROP(DROP_NO_SERVICE);
		if (!service->count && !service->qcount)
			return NOBODY_SERVES;
		id = 0;
		if (attempt == 0 && service->flags & LB_AFFINITY)
			id = affinity_find(service, client, family);
		if (!id && hash && attempt < 2 && service->backend >> 24 == LB_MAGLEV)
			id = maglev_find(service->rev_nat, hash, family);
		if (!id) {
			/* One backend is no choice. A connection whose entry was evicted finds its own again by its ends. */
			if (!drawn && service->count + service->qcount > 1)
				drawn = hash ? hash : bpf_get_prandom_u32();
			id = slot_find(service, key, drawn + attempt, family);
		}
		if (!id || !backend_read(backend, service->rev_nat, id, family))
			continue;
		if (backend_takes(backend, service) || attempt >= BACKEND_ATTEMPTS_CHOOSY) {
			if (service->flags & LB_AFFINITY)
				affinity_note(service, client, id, family);
			return 0;
		}
	}
	return BACKEND_DROP(DROP_NO_SERVICE);
}
