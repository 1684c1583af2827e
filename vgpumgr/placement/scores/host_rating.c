/* Rates one host for every type of request: what fragmentation_plane.py, key_order_plane.py and
 * host_table.py do in NumPy, number for number. Sums are of multiples of small powers of two
 * (STEP, gpu_states.py), so they are exact in any order; compile with -ffp-contract=off.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST_GPUS 64
#define MOST_NODES 64

typedef struct {
    /* Hosts [host], [host × width], [host × nodes]. */
    int64_t hosts, width, nodes, most_cpu;
    const int64_t *cpu, *memory, *rows, *node_memory;
    const int8_t *node_of;
    const uint8_t *plain;
    /* The table [row × columns], of which `parts` columns are in use. */
    int64_t columns, parts;
    const int32_t *room, *after;
    const float *surplus;
    const double *keys;
    const int32_t *ranks;
    const int64_t *opened;
    /* The mix [row × entries], [entry] by vCPUs, [row]; `seen` rows are known. */
    int64_t entries, seen;
    const float *mix_room, *useful;
    const double *need, *weight;
    const int64_t *mix_cpu, *mix_memory;
    const double *free, *idle, *useless, *worth, *size;
    int64_t spreading, most_memory;
    /* Types [type]; the parts of bundle b are numbers parts_from[b] to parts_from[b + 1]. */
    int64_t types, bundles;
    const int64_t *type_cpu, *type_memory, *bundle, *parts_from, *part_column, *part_count, *part_need;
    const uint8_t *require, *prefer, *needs_nodes, *vague;
    /* Ranks of offers in order, and what the fields of scores are worth. */
    int64_t sizes;
    const int32_t *size_ranks;
    double off_node, unknown, off_gpus, best_fit, cut_last, crowded, milli, same, size_field, vague_head;
    double *work; /* [(parts + 3 × entries + 1) + bundles × (entries + 8)] */
} Rating;

typedef struct {
    double used, free, idle, worth, surplus;
    const double *sums; /* sums[n]: useful to the first n entries of the mix, weighed */
} Outcome;

/* Room on a set of GPUs by column; which of bundles it suffices. */
static int enough(const Rating *r, const double *room, int64_t bundle) {
    for (int64_t n = r->parts_from[bundle]; n < r->parts_from[bundle + 1]; n++)
        if (room[r->part_column[n]] < (double)r->part_need[n]) return 0;
    return 1;
}

static void add_room(const Rating *r, double *room, int64_t row) {
    for (int64_t c = 0; c < r->parts; c++) room[c] += r->room[row * r->columns + c];
}

/* fits[type]: 0 no, 1 yes, 2 only off the NUMA nodes though it prefers one. */
static void find_room(const Rating *r, int64_t host, uint8_t *fits, double *room) {
    const int64_t *rows = r->rows + host * r->width;
    const int8_t *node_of = r->node_of + host * r->width;
    const int64_t *node_memory = r->node_memory + host * r->nodes;
    int64_t nodes = 0, loose = 0, all_known = r->nodes > 0;
    memset(room, 0, (size_t)r->parts * sizeof *room);
    for (int64_t g = 0; g < r->width; g++) add_room(r, room, rows[g]);
    while (nodes < r->nodes && node_memory[nodes] >= 0) nodes++;
    for (int64_t g = 0; r->nodes && g < r->width; g++)
        if (node_of[g] == -1) loose = 1, all_known = 0;
    for (int64_t t = 0; t < r->types; t++)
        fits[t] = r->type_cpu[t] <= r->cpu[host] && r->type_memory[t] <= r->memory[host] && enough(r, room, r->bundle[t]);
    if (!nodes) {
        for (int64_t t = 0; t < r->types; t++) fits[t] &= !r->needs_nodes[t];
        return;
    }
    for (int64_t t = 0; t < r->types; t++) fits[t] = fits[t] ? 4 : 0;
    for (int64_t node = 0; node < nodes; node++)
        for (int with_loose = 0; with_loose <= loose; with_loose++) {
            memset(room, 0, (size_t)r->parts * sizeof *room);
            for (int64_t g = 0; g < r->width; g++)
                if (node_of[g] == node || (with_loose && node_of[g] == -1)) add_room(r, room, rows[g]);
            for (int64_t t = 0; t < r->types; t++)
                if (fits[t] == 4 && (!loose || with_loose != r->require[t]) && r->type_memory[t] <= node_memory[node] && enough(r, room, r->bundle[t]))
                    fits[t] = 1;
        }
    for (int64_t t = 0; t < r->types; t++)
        if (fits[t] == 4) {
            int bound = r->needs_nodes[t] || (all_known && r->parts_from[r->bundle[t]] < r->parts_from[r->bundle[t] + 1]);
            fits[t] = r->require[t] ? 0 : r->prefer[t] && bound ? 2 : 1;
        }
}

/* What is useful with so much room, weighed, to the first n entries of the mix. */
static void sum_up(const Rating *r, const double *room, const double *useful, double *sums) {
    double sum = sums[0] = 0.0;
    for (int64_t m = 0; m < r->entries; m++) {
        sum += room[m] >= r->need[m] ? useful[m] * r->weight[m] : 0.0;
        sums[m + 1] = sum;
    }
}

/* What of that is useful where so many vCPUs and so much memory are left. */
static double opened(const Rating *r, const double *sums, int64_t cpu, int64_t memory) {
    int64_t low = 0, high = r->entries;
    while (low < high) {
        int64_t at = (low + high) / 2;
        if (r->mix_cpu[at] <= cpu) low = at + 1; else high = at;
    }
    if (memory >= r->most_memory) return sums[low];
    double sum = 0.0;
    for (int64_t m = 0; m < low; m++)
        if (r->mix_memory[m] <= memory) sum += sums[m + 1] - sums[m];
    return sum;
}

static double score(const Rating *r, int64_t host, int64_t type, const Outcome *o, int64_t row, double before) {
    int64_t left = r->cpu[host] - r->type_cpu[type];
    double gain = opened(r, o->sums, left, r->memory[host] - r->type_memory[type]) - before;
    gain = gain + o->worth + o->used - o->surplus + r->off_gpus * r->plain[host];
    double cost = r->best_fit * ((double)left / (double)r->most_cpu + o->idle / (r->milli * (double)r->width));
    cost = cost + r->cut_last * r->idle[row];
    if (r->spreading && fabs(o->used - r->size[row]) < r->same)
        cost = r->crowded * (r->milli - r->free[row]) + r->cut_last * (r->milli - o->free / (double)r->width);
    return gain - cost;
}

static double loss(const Rating *r, int64_t row, int64_t column) {
    int64_t after = r->after[row * r->columns + column];
    return r->useless[after] - r->useless[row] - r->worth[after] + r->worth[row] + (double)r->surplus[row * r->columns + column];
}

static int known(const Rating *r, int64_t row) {
    return row < r->seen && (row == 0 || r->opened[row] >= r->parts);
}

/* The GPU where one more part loses least, the fullest of those; -1: none, -2 - row: see rate. */
static int64_t best_gpu(const Rating *r, const int64_t *now, int64_t column) {
    int64_t best = -1;
    double least = 0.0;
    for (int64_t g = 0; g < r->width; g++) {
        int64_t row = now[g];
        if (!r->room[row * r->columns + column]) continue;
        if (!known(r, row)) return -2 - row;
        if (r->after[row * r->columns + column] >= r->seen) return -2 - r->after[row * r->columns + column];
        double one = loss(r, row, column);
        if (best >= 0) {
            int64_t other = now[best];
            if (one > least || (one == least && (r->free[row] > r->free[other] || (r->free[row] == r->free[other] && row >= other)))) continue;
        }
        best = g, least = one;
    }
    return best;
}

/* The scores of one host for types first to end - 1 that fit, and of each state that a type of one part
 * may take where of_row is given; -1, or the row of the table that has to be opened.
 */
static int64_t rate(const Rating *r, int64_t host, int64_t first, int64_t end, const uint8_t *fits, double *scores, int64_t *of_row, double *row_scores, int64_t *rows_out) {
    int64_t m = r->entries, gpus[MOST_GPUS], now[MOST_GPUS];
    double *work = r->work + r->parts, *room = work, *useful = room + m, *sums0 = useful + m, *extra = sums0 + m + 1, *held = extra + 2 * m;
    double free0 = 0.0, idle0 = 0.0;
    for (int64_t g = 0; g < r->width; g++) {
        int64_t row = r->rows[host * r->width + g], at = g;
        if (!known(r, row)) return row;
        while (at > 0 && gpus[at - 1] > row) gpus[at] = gpus[at - 1], at--;
        gpus[at] = row;
    }
    memset(room, 0, (size_t)(2 * m) * sizeof *room);
    for (int64_t g = 0; g < r->width; g++) {
        const float *one = r->mix_room + gpus[g] * m, *other = r->useful + gpus[g] * m;
        for (int64_t n = 0; n < m; n++) room[n] += one[n], useful[n] += other[n];
        free0 += r->free[gpus[g]], idle0 += r->idle[gpus[g]];
    }
    sum_up(r, room, useful, sums0);
    double before = opened(r, sums0, r->cpu[host], r->memory[host]);
    uint8_t *made = (uint8_t *)(held + r->bundles * (m + 6));
    Outcome none = {0.0, free0, idle0, 0.0, 0.0, sums0};
    memset(made, 0, (size_t)r->bundles);
    /* Types of one part: each state that takes it. */
    int64_t found = 0;
    for (int64_t g = 0; g < r->width; g++) {
        int64_t row = gpus[g];
        if (row == 0 || (g && row == gpus[g - 1])) continue;
        memset(made, 0, (size_t)r->bundles);
        for (int64_t t = first; t < end; t++) {
            int64_t b = r->bundle[t], n = r->parts_from[b];
            if (!fits[t] || r->parts_from[b + 1] - n != 1 || r->part_count[n] != 1) continue;
            int64_t at = row * r->columns + r->part_column[n], after = r->after[at];
            if (!r->room[at]) continue;
            double *sums = held + b * (m + 6), *rest = sums + m + 1;
            if (!made[b]) {
                if (after >= r->seen) return after;
                for (int64_t k = 0; k < m; k++) {
                    extra[k] = room[k] - (double)r->mix_room[row * m + k] + (double)r->mix_room[after * m + k];
                    extra[m + k] = useful[k] - (double)r->useful[row * m + k] + (double)r->useful[after * m + k];
                }
                sum_up(r, extra, extra + m, sums);
                rest[1] = free0 - r->free[row] + r->free[after];
                rest[0] = free0 - rest[1];
                rest[2] = idle0 - r->idle[row] + r->idle[after];
                rest[3] = r->worth[after] - r->worth[row];
                rest[4] = r->surplus[at];
                made[b] = 1;
            }
            Outcome o = {rest[0], rest[1], rest[2], rest[3], rest[4], sums};
            double own = score(r, host, t, &o, row, before);
            if (own > scores[t]) scores[t] = own;
            if (of_row) of_row[found] = row, row_scores[found] = own, found++;
        }
    }
    if (rows_out) *rows_out = found;
    /* The rest: one good way to place several parts, or none to place. */
    memset(made, 0, (size_t)r->bundles);
    for (int64_t t = first; t < end; t++) {
        int64_t b = r->bundle[t], n = r->parts_from[b], last = r->parts_from[b + 1];
        if (!fits[t] || (last - n == 1 && r->part_count[n] == 1)) continue;
        if (n == last) {
            scores[t] = score(r, host, t, &none, 0, before);
            continue;
        }
        double *sums = held + b * (m + 6), *rest = sums + m + 1;
        if (!made[b]) {
            memcpy(now, gpus, sizeof now);
            rest[4] = 0.0;
            made[b] = 1;
            for (; n < last && made[b] == 1; n++)
                for (int64_t k = 0; k < r->part_count[n]; k++) {
                    int64_t best = best_gpu(r, now, r->part_column[n]);
                    if (best < -1) return -2 - best;
                    if (best < 0) { made[b] = 2; break; }
                    rest[4] += r->surplus[now[best] * r->columns + r->part_column[n]];
                    now[best] = r->after[now[best] * r->columns + r->part_column[n]];
                }
            memcpy(extra, room, (size_t)(2 * m) * sizeof *extra);
            rest[1] = free0, rest[2] = idle0, rest[3] = 0.0;
            for (int64_t g = 0; g < r->width; g++) {
                if (now[g] == gpus[g]) continue;
                for (int64_t k = 0; k < m; k++) {
                    extra[k] += (double)r->mix_room[now[g] * m + k] - (double)r->mix_room[gpus[g] * m + k];
                    extra[m + k] += (double)r->useful[now[g] * m + k] - (double)r->useful[gpus[g] * m + k];
                }
                rest[1] += r->free[now[g]] - r->free[gpus[g]];
                rest[2] += r->idle[now[g]] - r->idle[gpus[g]];
                rest[3] += r->worth[now[g]] - r->worth[gpus[g]];
            }
            rest[0] = free0 - rest[1];
            sum_up(r, extra, extra + m, sums);
        }
        if (made[b] == 1) {
            Outcome o = {rest[0], rest[1], rest[2], rest[3], rest[4], sums};
            scores[t] = score(r, host, t, &o, 0, before);
        }
    }
    return -1;
}

/* The digest of this file, for whoever loads what was made of it. */
int64_t source(void) { return SOURCE; }

static uint8_t *flags(const Rating *r) {
    int64_t m = r->entries;
    return (uint8_t *)(r->work + r->parts + 5 * m + 1 + r->bundles * (m + 6)) + r->bundles;
}

static double *totals(const Rating *r) {
    return (double *)(flags(r) + (r->types + 8 - (r->bundles + r->types) % 8));
}

/* The host's scores by least fragmentation, into a column of float32 [type × hosts] where `allowed`
 * (the like column of flags) says so. -1: done; else the row of the table that has to be opened.
 */
int64_t rate_host(const Rating *r, int64_t host, float *into, const uint8_t *allowed) {
    uint8_t *fits = flags(r);
    double *scores = totals(r);
    find_room(r, host, fits, r->work);
    for (int64_t t = 0; t < r->types; t++) scores[t] = -INFINITY;
    int64_t missing = rate(r, host, 0, r->types, fits, scores, 0, 0, 0);
    if (missing >= 0) return missing;
    for (int64_t t = 0; t < r->types; t++) {
        int64_t at = t * r->hosts + host;
        double own = scores[t] == -INFINITY ? r->unknown : scores[t];
        into[at] = fits[t] && allowed[at] ? (float)(own - (fits[t] == 2) * r->off_node) : -INFINITY;
    }
    return -1;
}

/* States of a host's GPUs that a type of one part may take, and their scores; `count` of them. */
int64_t ways_on_host(const Rating *r, int64_t host, int64_t type, int64_t *rows, double *found, int64_t *count) {
    uint8_t *fits = flags(r);
    double *scores = totals(r);
    fits[type] = 1, scores[type] = -INFINITY;
    return rate(r, host, type, type + 1, fits, scores, rows, found, count);
}

static double size_of(const Rating *r, int32_t rank) {
    int64_t low = 0, high = r->sizes;
    while (low < high) {
        int64_t at = (low + high) / 2;
        if (r->size_ranks[at] <= rank) low = at + 1; else high = at;
    }
    return (double)low;
}

/* The same by the first fields of keys, into a column of float64. */
int64_t head_of_host(const Rating *r, int64_t host, double *into, const uint8_t *allowed) {
    uint8_t *fits = flags(r);
    const int64_t *rows = r->rows + host * r->width;
    for (int64_t g = 0; g < r->width; g++)
        if (rows[g] && r->opened[rows[g]] < r->parts) return rows[g];
    find_room(r, host, fits, r->work);
    for (int64_t t = 0; t < r->types; t++) {
        int64_t at = t * r->hosts + host, n = r->parts_from[r->bundle[t]];
        double head = r->vague[t] ? r->vague_head : 0.0;
        if (!r->vague[t] && n < r->parts_from[r->bundle[t] + 1]) {
            head = INFINITY;
            for (int64_t g = 0; g < r->width; g++) {
                int64_t cell = rows[g] * r->columns + r->part_column[n];
                if (rows[g]) head = fmin(head, r->keys[cell] + size_of(r, r->ranks[cell]) * r->size_field);
            }
        }
        into[at] = fits[t] && allowed[at] ? -(head + (fits[t] == 2) * r->off_node) : -INFINITY;
    }
    return -1;
}

/* The best host of a row by score less the cost of its class (hosts starts[c] to starts[c + 1]), of
 * those the one with the lowest rank; -1 where no host fits.
 */
int64_t best_of_classes(const float *row, int64_t hosts, const int64_t *starts, int64_t classes, const double *costs, int64_t stride, const int64_t *number, const int64_t *rank) {
    double most = -INFINITY;
    int64_t found = -1;
    for (int64_t c = 0; c < classes; c++) {
        int64_t end = c + 1 < classes ? starts[c + 1] : hosts, at = starts[c];
        float m0 = -INFINITY, m1 = m0, m2 = m0, m3 = m0;
        for (; at + 4 <= end; at += 4) {
            m0 = row[at] > m0 ? row[at] : m0, m1 = row[at + 1] > m1 ? row[at + 1] : m1;
            m2 = row[at + 2] > m2 ? row[at + 2] : m2, m3 = row[at + 3] > m3 ? row[at + 3] : m3;
        }
        for (; at < end; at++) m0 = row[at] > m0 ? row[at] : m0;
        m0 = m1 > m0 ? m1 : m0, m2 = m3 > m2 ? m3 : m2, m0 = m2 > m0 ? m2 : m0;
        if (m0 == -INFINITY) continue;
        double worth = (double)m0 - costs[number[c] * stride];
        if (worth < most) continue;
        for (at = starts[c]; row[at] != m0; at++) ;
        if (worth > most || rank[at] < rank[found]) found = at;
        most = worth;
    }
    return found;
}

/* Of the hosts with the best score the one that is most (sign -1) or least (1) in units, memory and
 * vCPUs, of those the first; -1 where no host fits.
 */
int64_t best_of_keys(const double *row, int64_t hosts, int64_t sign, const int64_t *units, const int64_t *memory, const int64_t *cpu) {
    double m0 = -INFINITY, m1 = m0, m2 = m0, m3 = m0;
    int64_t best = -1, at = 0;
    for (; at + 4 <= hosts; at += 4) {
        m0 = row[at] > m0 ? row[at] : m0, m1 = row[at + 1] > m1 ? row[at + 1] : m1;
        m2 = row[at + 2] > m2 ? row[at + 2] : m2, m3 = row[at + 3] > m3 ? row[at + 3] : m3;
    }
    for (; at < hosts; at++) m0 = row[at] > m0 ? row[at] : m0;
    m0 = m1 > m0 ? m1 : m0, m2 = m3 > m2 ? m3 : m2, m0 = m2 > m0 ? m2 : m0;
    if (m0 == -INFINITY) return -1;
    for (at = 0; at < hosts; at++) {
        if (row[at] != m0) continue;
        int64_t less = best < 0 ? -1 : sign * (units[at] - units[best]);
        if (!less) less = sign * (memory[at] - memory[best]);
        if (!less) less = sign * (cpu[at] - cpu[best]);
        if (less < 0) best = at;
    }
    return best;
}
